package nesotest

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Echo is a backend whose models answer every input with an output of the same
// content, named OUT when the input is IN, else as the input. Fields that are
// set hook into its steps; they are called concurrently and must not be
// changed once the backend is in use.
type Echo struct {
	Name string
	// OnOpen may fail the opening of the backend.
	OnOpen func(host backend.Host, settings backend.Settings) error
	// OnComplete is the backend's Complete; when set, the backend completes.
	OnComplete func(cfg backend.Config) ([]byte, error)
	// OnLoad may fail or delay the load of a version.
	OnLoad func(ctx context.Context, cfg backend.Config) error
	// OnExecute may delay a batch, fail it, or, with true, answer it itself.
	OnExecute func(ctx context.Context, cfg backend.Config, batch *backend.Batch) (answered bool, err error)
	// OnReady is asked for the readiness of each version.
	OnReady func(cfg backend.Config) error
	// TakesDevice is that of the backend's Capabilities.
	TakesDevice func(cfg *backend.Config) bool
	// OnClose sees each version close.
	OnClose func(cfg backend.Config)

	// Opened counts calls of Open, Loads those of Load. Backends, Models and
	// Instances are those alive.
	Opened, Loads, Backends, Models, Instances atomic.Int64
}

// Driver returns the driver that opens e.
func (e *Echo) Driver() backend.Driver {
	return backend.Driver{Name: e.Name, Open: func(_ context.Context, host backend.Host, settings backend.Settings) (backend.Backend, error) {
		e.Opened.Add(1)
		if e.OnOpen != nil {
			if err := e.OnOpen(host, settings); err != nil {
				return nil, err
			}
		}
		e.Backends.Add(1)
		return (*echoBackend)(e), nil
	}}
}

// Alive returns how many backends, models and instances are not closed.
func (e *Echo) Alive() int64 { return e.Backends.Load() + e.Models.Load() + e.Instances.Load() }

// Program opens backends for a test to bind. It is called before the server is made,
// so that its end comes after the server's: then none of them is open.
func Program(t *testing.T) (open func(*Echo) backend.Backend) {
	t.Helper()
	type bound struct {
		echo    *Echo
		backend backend.Backend
	}
	var all []bound
	t.Cleanup(func() {
		for _, b := range all {
			_ = b.backend.Close()
		}
		for _, b := range all {
			if n := b.echo.Alive(); n != 0 {
				t.Errorf("%d backends, models or instances left open", n)
			}
		}
	})
	return func(e *Echo) backend.Backend {
		b, err := e.Driver().Open(t.Context(), nil, backend.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bound{e, b})
		return b
	}
}

type echoBackend Echo

func (b *echoBackend) Capabilities() backend.Capabilities {
	return backend.Capabilities{Completes: b.OnComplete != nil, CopiesOutputs: true, TakesDevice: b.TakesDevice}
}

func (b *echoBackend) Complete(_ context.Context, cfg backend.Config) ([]byte, error) {
	if b.OnComplete == nil {
		return nil, nil
	}
	return b.OnComplete(cfg)
}

func (b *echoBackend) Load(ctx context.Context, cfg backend.Config) (backend.Model, error) {
	b.Loads.Add(1)
	if b.OnLoad != nil {
		if err := b.OnLoad(ctx, cfg); err != nil {
			return nil, err
		}
	}
	b.Models.Add(1)
	return &echoModel{b: b, cfg: cfg}, nil
}

func (b *echoBackend) Close() error {
	b.Backends.Add(-1)
	return nil
}

type echoModel struct {
	b   *echoBackend
	cfg backend.Config
}

func (m *echoModel) Allocator() tensor.Allocator { return nil }

func (m *echoModel) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	m.b.Instances.Add(1)
	return (*echoInstance)(m), nil
}

func (m *echoModel) Ready() error {
	if m.b.OnReady == nil {
		return nil
	}
	return m.b.OnReady(m.cfg)
}

func (m *echoModel) Close() error {
	if m.b.OnClose != nil {
		m.b.OnClose(m.cfg)
	}
	m.b.Models.Add(-1)
	return nil
}

type echoInstance echoModel

func (i *echoInstance) Execute(ctx context.Context, batch *backend.Batch) error {
	if i.b.OnExecute != nil {
		if answered, err := i.b.OnExecute(ctx, i.cfg, batch); answered || err != nil {
			return err
		}
	}
	for _, r := range batch.Requests {
		resp := &backend.Response{}
		for _, in := range r.Inputs {
			name := in.Name
			if name == "IN" {
				name = "OUT"
			}
			resp.Outputs = append(resp.Outputs, tensor.Tensor{
				Name: name, Datatype: in.Datatype, Shape: in.Shape.Clone(),
				Data: slices.Clone(in.Data),
			})
		}
		_ = r.Respond(resp, true) // a cancelled request needs nothing more
	}
	return nil
}

func (i *echoInstance) Close() error {
	i.b.Instances.Add(-1)
	return nil
}
