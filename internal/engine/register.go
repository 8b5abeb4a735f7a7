package engine

import (
	"context"
	"sync"

	"github.com/nesoserve/neso/backend"
)

// Register adds the model repository at path while the server runs (explicit
// control mode only): the model in its sub-directory is served as model. It
// loads nothing.
func (e *Engine) Register(path, directory, model string) error {
	if err := e.controllable(); err != nil {
		return err
	}
	return e.repo.Register(path, map[string]string{directory: model})
}

// RegisterNames is Register for several models: names maps sub-directories to the
// names that their models are served by. Those that it does not have keep theirs.
func (e *Engine) RegisterNames(path string, names map[string]string) error {
	if err := e.controllable(); err != nil {
		return err
	}
	err := e.repo.Register(path, names)
	if b := backend.AsError(err); b != nil && b.Code == backend.NotFound {
		b.Code = backend.InvalidArg // only to who says it with one model is it not found
	}
	return err
}

// Unregister takes back what Register did; what is loaded stays, and leaves the index of
// the repositories.
func (e *Engine) Unregister(path string) error {
	if err := e.controllable(); err != nil {
		return err
	}
	before := e.stored()
	if err := e.repo.Unregister(path); err != nil {
		return err
	}
	after := e.stored()
	e.unlisted.mu.Lock()
	defer e.unlisted.mu.Unlock()
	if e.unlisted.names == nil {
		e.unlisted.names = map[string]bool{}
	}
	for name := range before {
		if !after[name] {
			e.unlisted.names[name] = true
		}
	}
	return nil
}

// unlisted are the models whose repositories were taken back.
type unlisted struct {
	mu    sync.Mutex
	names map[string]bool
}

// stored returns the names of the models that the repositories have.
func (e *Engine) stored() map[string]bool {
	ctx, cancel := context.WithTimeout(context.Background(), indexTimeout)
	defer cancel()
	names := map[string]bool{}
	list, _ := e.repo.List(ctx) // what cannot be listed keeps its place in the index
	for _, s := range list {
		names[s.Name] = true
	}
	return names
}

// UnloadWait unloads a model with its parts and waits until its requests in
// flight have ended and its memory is given back, or ctx ends.
func (e *Engine) UnloadWait(ctx context.Context, name string) error {
	if err := e.Unload(ctx, name, true); err != nil {
		return err
	}
	return e.life.Unloaded(ctx, name)
}
