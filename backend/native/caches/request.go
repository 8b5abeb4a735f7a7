package caches

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native"
)

// request is one call as a request of the protocol. It has one outcome, which either who
// has called takes, or nobody.
type request struct {
	backend.Request
	done chan outcome // has room for the one

	mu        sync.Mutex
	answer    *backend.Response
	ended     bool // finish was called
	abandoned bool
}

// Respond implements backend.Responder.
func (r *request) Respond(resp *backend.Response, _ bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if resp == nil {
		return nil
	}
	if r.answer != nil || r.ended {
		resp.Release()
		return backend.Errorf(backend.Internal, "the call has already been answered")
	}
	r.answer = resp
	return nil
}

// Cancelled implements backend.Responder. A call is never taken back: a library cannot
// be told to stop.
func (r *request) Cancelled() bool { return false }

// finish ends the call.
func (r *request) finish(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	o := outcome{resp: r.answer}
	r.answer = nil
	switch {
	case o.resp != nil && o.resp.Err != nil: // the library's words
		err = o.resp.Err
	case err != nil:
		err = backend.Errorf(backend.Unavailable, "%v", native.Plain(err))
	}
	if err != nil {
		o.resp.Release()
		o = outcome{err: err}
	}
	if r.abandoned {
		o.resp.Release()
		return
	}
	r.done <- o
}

// abandon says that nobody waits any more. An outcome that is there already is taken.
func (r *request) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.abandoned = true
	select {
	case o := <-r.done:
		o.resp.Release()
	default:
	}
}
