package engine

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/model"
)

// Resolve pins a version of a model for one request of bytes input bytes
// (reserved against the server-wide caps): the given version, or the latest ready
// one for -1. The caller must hand the pin on with Infer, or end it with Unpin.
// Errors carry the protocol's texts and codes, RetryAfter on overload.
func (e *Engine) Resolve(name string, version int64, bytes int64) (Pin, error) {
	if e.State() != Ready {
		return Pin{}, notReady()
	}
	if !e.admission.enterExternal() {
		return Pin{}, notReady()
	}
	p, err := e.pin(name, version, bytes)
	if err != nil {
		e.admission.leaveExternal()
		return Pin{}, err
	}
	p.done = e.endExternal
	return p, nil
}

// pin is Resolve for requests from inside the server, which pass also while it
// stops: a model that still works for a request may need another.
func (e *Engine) pin(name string, version int64, bytes int64) (Pin, error) {
	if err := e.admission.enter(bytes); err != nil {
		return Pin{}, err
	}
	m := e.life.Pin(name, version)
	if m == nil {
		e.admission.leave(bytes)
		return Pin{}, e.life.Explain(name, version)
	}
	return Pin{Model: m, bytes: bytes, e: e, done: e.endInternal}, nil
}

// Pin is a model version held for one request.
type Pin struct {
	Model *model.Model
	bytes int64
	e     *Engine
	// done ends the pin with its request. It is one of two functions made once, so
	// that a request needs none of its own.
	done func(*infer.Request)
}

// Unpin lets go of a pin that was not handed to Infer.
func (p Pin) Unpin() {
	r := infer.Request{Owner: p.Model, Bytes: p.bytes}
	p.done(&r)
}

// NewRequest returns a request pinned to p's version that answers into sink.
// The pin and its reserved bytes end with the request (also with Abandon).
func (p Pin) NewRequest(sink infer.Sink) *infer.Request {
	r := infer.New(sink, p.done)
	r.Owner, r.Bytes = p.Model, p.bytes
	r.ModelName, r.ModelVersion = p.Model.Config().Name, p.Model.Version()
	return r
}

// end lets go of what a request held. The owner must be the one NewRequest set.
func (e *Engine) end(r *infer.Request) {
	r.Owner.(*model.Model).Unpin()
	e.admission.leave(r.Bytes)
}

// Infer is hop 2: it comes from a front end (hop 1) and goes on to model.Infer
// (hop 3). An error is a refusal; then the request has been abandoned and its
// sink is never called.
func (e *Engine) Infer(r *infer.Request) error {
	m := r.Owner.(*model.Model)
	if r.Ctx == nil {
		r.Ctx = context.Background()
	}
	if err := m.Infer(r); err != nil {
		r.Abandon()
		return err
	}
	return nil
}

func notReady() error { return backend.Errorf(backend.Unavailable, "Server not ready") }
