package engine

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle"
)

// Bind serves one version of a model that a running program implements, in any
// control mode, and returns its complete configuration as JSON. When the
// version is bound already, the new one takes its place once it is ready. The
// caller closes b after Unbind, or after the engine is closed.
func (e *Engine) Bind(ctx context.Context, name string, version int64, config []byte, b backend.Backend) ([]byte, error) {
	if s := e.State(); s == Exiting || s == Failed {
		return nil, notReady()
	}
	if err := e.life.Bind(ctx, lifecycle.Bound{Name: name, Version: version, Config: config, Backend: b}); err != nil {
		return nil, err
	}
	m := e.life.Find(name, version)
	if m == nil {
		return nil, e.life.Explain(name, version)
	}
	return m.Config().JSON(), nil
}

// Unbind takes a bound version out of service and returns once no new request
// can reach it. With a backend, only what is bound to that one is unbound.
func (e *Engine) Unbind(ctx context.Context, name string, version int64, of backend.Backend) error {
	return e.life.Unbind(ctx, name, version, of)
}

// Host is what a backend that is opened outside of the engine may ask of it.
func (e *Engine) Host() backend.Host { return &host{e} }
