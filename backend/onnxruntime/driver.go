package onnxruntime

import (
	"context"
	"errors"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/backend/internal/library"
)

// Options configure the backend: the Python interpreter whose packages are searched.
type Options = library.Options

// New returns the driver.
func New(o Options) backend.Driver {
	return backend.Driver{
		Name: Spec.Backend, Parameters: parameters(), Settings: []string{
			completion.MaxBatchSize, settingThreads, paramIntraThreads,
			paramInterThreads,
		},
		Files: []string{Spec.Parameter}, Paths: wildcards(), OwnCode: ownCode, CheckParameter: checkParameter,
		Open: func(_ context.Context, host backend.Host, s backend.Settings) (backend.Backend, error) {
			set, err := parseSettings(s)
			if err != nil {
				return nil, err
			}
			return &driver{options: o, host: host, server: s, settings: set}, nil
		},
	}
}

// driver is the open backend: the libraries in use, and sessions that have
// completed a configuration and wait for the load.
type driver struct {
	options      Options
	host         backend.Host
	server       backend.Settings
	settings     settings
	environments library.Opened[*environment]
	ready        completion.Ready[*session]
	watch        watch
}

const settingThreads = "enable-global-threadpool"

// settings are the --backend-config=onnxruntime,... values.
type settings struct {
	maxBatchSize  int // of models that can batch and do not say how much
	sharedThreads bool
	intra, inter  int // 0: the default
}

func parseSettings(s backend.Settings) (settings, error) {
	set := settings{maxBatchSize: 4}
	number := func(key string, into *int) error { return completion.Number(Spec.Backend, s, key, into) }
	if err := errors.Join(number(completion.MaxBatchSize, &set.maxBatchSize), number(paramIntraThreads, &set.intra),
		number(paramInterThreads, &set.inter)); err != nil {
		return set, err
	}
	if text, ok := s.Values[settingThreads]; ok {
		var err error
		if set.sharedThreads, err = parseBool(text); err != nil {
			return set, backend.Errorf(backend.InvalidArg, s.Option("backend-config")+"=onnxruntime,enable-global-threadpool: %v", err)
		}
	}
	return set, nil
}

// Capabilities: an instance runs one batch at a time, and wants it in one
// piece.
func (d *driver) Capabilities() backend.Capabilities {
	return backend.Capabilities{Gather: true, Completes: true, CopiesOutputs: true, UsesGPU: d.usesGPU}
}

// usesGPU looks for the CUDA provider, which is a library of its own: to open
// ONNX Runtime for the question would keep it out of no process.
func (d *driver) usesGPU() bool {
	return Spec.Beside(Spec.LocationsFor(nil, d.server, d.options.Interpreter), "*onnxruntime_providers_cuda*")
}

// Close frees what no model uses any more.
func (d *driver) Close() error {
	d.watch.close()
	d.ready.Close()
	d.environments.Close((*environment).drop)
	return nil
}
