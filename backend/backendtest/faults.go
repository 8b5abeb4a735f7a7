package backendtest

import (
	"context"

	"github.com/nesoserve/neso/backend"
)

// Faults says what goes wrong with a backend. Each function is called before what
// it is named after, on the goroutine of that call, and may wait: so it delays it.
// An error takes the place of the call. nil means that nothing goes wrong.
//
// A backend with faults has none of the optional interfaces that its parts had.
type Faults struct {
	Load        func(ctx context.Context, cfg *backend.Config) error
	NewInstance func(ctx context.Context, cfg *backend.InstanceConfig) error
	Execute     func(ctx context.Context, batch *backend.Batch) error
	// Respond may make an answer an error; it is called for those that are none.
	Respond func(r *backend.Request) *backend.Error
}

// Driver returns d with the faults.
func (f Faults) Driver(d backend.Driver) backend.Driver {
	open := d.Open
	d.Open = func(ctx context.Context, h backend.Host, s backend.Settings) (backend.Backend, error) {
		b, err := open(ctx, h, s)
		if err != nil {
			return nil, err
		}
		return &faultyBackend{b, &f}, nil
	}
	return d
}

type faultyBackend struct {
	backend.Backend
	faults *Faults
}

func (b *faultyBackend) Load(ctx context.Context, cfg backend.Config) (backend.Model, error) {
	if f := b.faults.Load; f != nil {
		if err := f(ctx, &cfg); err != nil {
			return nil, err
		}
	}
	m, err := b.Backend.Load(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &faultyModel{m, b.faults}, nil
}

type faultyModel struct {
	backend.Model
	faults *Faults
}

func (m *faultyModel) NewInstance(ctx context.Context, cfg backend.InstanceConfig) (backend.Instance, error) {
	if f := m.faults.NewInstance; f != nil {
		if err := f(ctx, &cfg); err != nil {
			return nil, err
		}
	}
	in, err := m.Model.NewInstance(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &faultyInstance{in, m.faults}, nil
}

type faultyInstance struct {
	backend.Instance
	faults *Faults
}

func (i *faultyInstance) Execute(ctx context.Context, batch *backend.Batch) error {
	if f := i.faults.Execute; f != nil {
		if err := f(ctx, batch); err != nil {
			return err
		}
	}
	respond := i.faults.Respond
	if respond == nil {
		return i.Instance.Execute(ctx, batch)
	}
	// The model gets copies: a backend only reads the server's requests.
	given := batch.Requests
	batch.Requests = make([]*backend.Request, len(given))
	for n, r := range given {
		own := *r
		own.Responder = &faultyResponder{r.Responder, r, respond}
		batch.Requests[n] = &own
	}
	defer func() { batch.Requests = given }()
	return i.Instance.Execute(ctx, batch)
}

type faultyResponder struct {
	backend.Responder
	request *backend.Request
	fault   func(r *backend.Request) *backend.Error
}

func (r *faultyResponder) Respond(resp *backend.Response, final bool) error {
	if resp != nil && resp.Err == nil {
		if err := r.fault(r.request); err != nil {
			resp.Release()
			resp = &backend.Response{Err: err}
		}
	}
	return r.Responder.Respond(resp, final)
}
