package engine

import (
	"context"

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

// Unregister takes back what Register did; what is loaded stays.
func (e *Engine) Unregister(path string) error {
	if err := e.controllable(); err != nil {
		return err
	}
	return e.repo.Unregister(path)
}

// UnloadWait unloads a model with its parts and waits until its requests in
// flight have ended and its memory is given back, or ctx ends.
func (e *Engine) UnloadWait(ctx context.Context, name string) error {
	if err := e.Unload(ctx, name, true); err != nil {
		return err
	}
	return e.life.Unloaded(ctx, name)
}
