package openvino

import (
	"context"
	"strconv"
	"sync"

	"github.com/nesoserve/neso/backend"
)

// Options configure the backend; the zero value uses a library of the backend
// directory, the environment or the system.
type Options struct {
	// Interpreter returns the Python interpreter whose packages are searched for
	// the library; may be nil.
	Interpreter func() (string, error)
}

// New returns the driver.
func New(o Options) backend.Driver {
	return backend.Driver{Name: Spec.Backend, Open: func(_ context.Context, host backend.Host, s backend.Settings) (backend.Backend, error) {
		d := &driver{options: o, host: host, settings: settings{directory: s.Directory, maxBatchSize: 4}, libraries: map[string]*api{}}
		if text, ok := s.Values["default-max-batch-size"]; ok {
			n, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return nil, backend.Errorf(backend.InvalidArg, "--backend-config=openvino,default-max-batch-size=%s: expected a whole number", text)
			}
			d.settings.maxBatchSize = int(n)
		}
		return d, nil
	}}
}

// driver is the open backend.
type driver struct {
	options  Options
	host     backend.Host
	settings settings

	mu        sync.Mutex
	libraries map[string]*api // by what the configuration names; "" is the default
}

// settings are the --backend-config=openvino,... values.
type settings struct {
	directory    string
	maxBatchSize int // of models that can batch and do not say how much
}

// Capabilities: an instance runs one batch at a time, and wants it in one
// piece.
func (d *driver) Capabilities() backend.Capabilities {
	return backend.Capabilities{Gather: true, Completes: true, CopiesOutputs: true}
}

// Close implements backend.Backend: a library stays open.
func (d *driver) Close() error { return nil }
