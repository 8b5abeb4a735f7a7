package openvino

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/backend/internal/library"
)

// Options configure the backend: the Python interpreter whose packages are searched.
type Options = library.Options

// New returns the driver.
func New(o Options) backend.Driver {
	return backend.Driver{
		Name: Spec.Backend, Parameters: parameters(), Settings: []string{completion.MaxBatchSize},
		Files: []string{Spec.Parameter, paramExtension}, Paths: []string{"CACHE_DIR"}, OwnCode: ownCode, CheckParameter: checkParameter,
		Open: func(_ context.Context, host backend.Host, s backend.Settings) (backend.Backend, error) {
			d := &driver{options: o, host: host, server: s, settings: settings{maxBatchSize: 4}}
			if err := completion.Number(Spec.Backend, s, completion.MaxBatchSize, &d.settings.maxBatchSize); err != nil {
				return nil, err
			}
			return d, nil
		},
	}
}

// driver is the open backend.
type driver struct {
	options   Options
	host      backend.Host
	server    backend.Settings
	settings  settings
	libraries library.Opened[*api]
}

// settings are the --backend-config=openvino,... values.
type settings struct {
	maxBatchSize int // of models that can batch and do not say how much
}

// Capabilities: an instance runs one batch at a time, and wants it in one
// piece. OpenVINO knows the GPUs of Intel, the server those of NVIDIA.
func (d *driver) Capabilities() backend.Capabilities {
	return backend.Capabilities{Gather: true, Completes: true, CopiesOutputs: true, UsesGPU: func() bool { return false }}
}

// Close implements backend.Backend: a library stays open.
func (d *driver) Close() error { return nil }
