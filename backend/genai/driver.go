package genai

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/backend/onnxruntime"
)

// Options configure the backend: the Python interpreter whose packages are searched.
type Options = library.Options

// New returns the driver.
func New(o Options) backend.Driver {
	return backend.Driver{
		Name: Spec.Backend, Isolated: true, OwnCode: ownCode, CheckParameter: checkParameter,
		Parameters: []string{Spec.Parameter, paramSequences, paramCache, paramThreads, paramTogether}, Settings: []string{},
		Files: []string{Spec.Parameter},
		Open: func(_ context.Context, host backend.Host, s backend.Settings) (backend.Backend, error) {
			return &driver{options: o, host: host, server: s}, nil
		},
	}
}

// checkParameter is what a load says of the value of a parameter.
func checkParameter(cfg *backend.Config, name string) error {
	one := *cfg
	one.Parameters = map[string]string{}
	if v, ok := cfg.Parameters[name]; ok {
		one.Parameters[name] = v
	}
	_, err := parseLimits(&one)
	return err
}

// driver is the open backend.
type driver struct {
	options   Options
	host      backend.Host
	server    backend.Settings
	libraries library.Opened[*api]
	runtimes  library.Opened[*onnxruntime.Runtime]
}

// Capabilities: a request is answered by a goroutine of its own after Execute, and its responses
// have the outputs that were asked for. The library chooses the device.
func (d *driver) Capabilities() backend.Capabilities {
	return backend.Capabilities{
		Completes: true, CopiesOutputs: true, LooseOutputs: true, Kind: "KIND_MODEL", UsesGPU: func() bool { return false }, Lingers: true,
	}
}

// Complete implements backend.Backend: the tensors that models of text have, and decoupled answers.
func (d *driver) Complete(_ context.Context, cfg backend.Config) ([]byte, error) {
	c, err := completion.Read(&cfg)
	if c == nil || err != nil {
		return nil, err
	}
	if _, _, err := readSettings(&cfg); err != nil {
		return nil, err
	}
	if c.MaxBatchSize > 0 {
		return nil, backend.Errorf(backend.InvalidArg, "autofill failed for model '%s': max_batch_size is %d, and language models batch "+
			"token by token: leave it out", cfg.Name, c.MaxBatchSize)
	}
	c.Decoupled()
	list := func(tensors []completion.IO) func() ([]completion.IO, error) {
		return func() ([]completion.IO, error) { return tensors, nil }
	}
	return c.Complete(0, list(inputs()), list(outputs()))
}

// Close frees what the libraries hold; no model uses them any more.
func (d *driver) Close() error {
	d.libraries.Close(func(a *api) { a.plain(fnShutdown) })
	d.runtimes.Close((*onnxruntime.Runtime).Close)
	return nil
}
