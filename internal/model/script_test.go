package model

import (
	"context"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// script is a backend made of functions, for what the real ones do not do.
type script struct {
	caps    backend.Capabilities
	load    func() error
	create  func(ctx context.Context, cfg backend.InstanceConfig) error
	execute func(ctx context.Context, b *backend.Batch) error
	open    atomic.Int64 // instances and models not yet closed
}

func (s *script) driver() backend.Driver {
	return backend.Driver{Name: "script", Open: func(context.Context, backend.Host, backend.Settings) (backend.Backend, error) {
		return s, nil
	}}
}

func (s *script) Capabilities() backend.Capabilities { return s.caps }
func (s *script) Complete(context.Context, backend.Config) ([]byte, error) {
	return nil, nil
}

func (s *script) Load(context.Context, backend.Config) (backend.Model, error) {
	if s.load != nil {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	s.open.Add(1)
	return scriptModel{s}, nil
}
func (s *script) Close() error { return nil }

type scriptModel struct{ *script }

func (m scriptModel) Allocator() tensor.Allocator { return nil }
func (m scriptModel) Ready() error                { return nil }
func (m scriptModel) Close() error                { m.open.Add(-1); return nil }

func (m scriptModel) NewInstance(ctx context.Context, cfg backend.InstanceConfig) (backend.Instance, error) {
	if m.create != nil {
		if err := m.create(ctx, cfg); err != nil {
			return nil, err
		}
	}
	m.open.Add(1)
	return scriptInstance(m), nil
}

type scriptInstance struct{ *script }

func (i scriptInstance) Close() error { i.open.Add(-1); return nil }

func (i scriptInstance) Execute(ctx context.Context, b *backend.Batch) error {
	return i.execute(ctx, b)
}

// answering returns an execute function that answers each request with the
// outputs.
func answering(outputs ...tensor.Tensor) func(context.Context, *backend.Batch) error {
	return func(_ context.Context, b *backend.Batch) error {
		for _, r := range b.Requests {
			_ = r.Respond(&backend.Response{Outputs: append([]tensor.Tensor(nil), outputs...)}, true)
		}
		return nil
	}
}
