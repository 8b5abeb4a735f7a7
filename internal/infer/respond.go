package infer

import (
	"context"
	"errors"

	"github.com/nesoserve/neso/backend"
)

// ErrEnded is returned for a response after the final one.
var ErrEnded = errors.New("the request has already been answered")

// ErrSibling is the cause with which the Ctx of an ensemble's steps ends when one
// of them has failed. What it cancels counts as a failure of a model, as the one
// that led to it does: no client has given up.
var ErrSibling = errors.New("another step of the ensemble has failed")

// Respond is hop 7: it comes from backend.Instance.Execute (hop 6) and ends in
// the front end's sink. It checks the response against the configuration,
// counts with the final one, and delivers.
func (r *Request) Respond(resp *backend.Response, final bool) error {
	if r.ended.Load() {
		resp.Release()
		return ErrEnded
	}
	if final && r.ended.Swap(true) {
		resp.Release()
		return ErrEnded
	}
	if resp == nil && !final { // nobody is to see it
		r.report(nil)
		r.Times.Response = backend.Now()
		return r.errCancelled()
	}
	if resp != nil {
		r.seen++
		if resp.Err == nil && r.Owner != nil {
			r.Owner.CheckResponse(r, resp)
		}
		if resp.Err != nil {
			resp.Release()
			if r.fail == nil {
				r.fail, r.unheard = resp.Err, r.Cancelled()
				if r.why == NoFailure {
					r.why = Backend
				}
			}
		}
		r.report(resp)
	}
	if r.Text != nil {
		r.Text.Response(resp)
		if final {
			r.Text.End()
		}
	}
	if r.Timeline != nil {
		r.Timeline.Answer(r, resp)
	}
	cancelled := r.errCancelled()
	if final {
		r.Times.End = backend.Now()
		if r.Owner != nil {
			r.Owner.Finish(r)
		}
		if r.Timeline != nil {
			r.Timeline.End(r, nil)
		}
		r.LeavePayer()
		r.endSpans()
	}
	if r.watch != nil {
		r.watch(resp, final)
	}
	r.sink.Deliver(r, resp, final)
	if final {
		r.Drop()
		return nil
	}
	r.Times.Response = backend.Now() // what a slow client takes is not the next one's
	return cancelled
}

// report has a response counted, nil for an empty one.
func (r *Request) report(resp *backend.Response) {
	if r.Owner != nil {
		r.Owner.CountResponse(r, resp, r.told)
	}
	r.told++
}

func (r *Request) errCancelled() error {
	if !r.Cancelled() {
		return nil
	}
	return backend.Errorf(backend.Cancelled, "request cancelled")
}

// Fail answers the request with an error, as its final response, unless it has
// been answered already.
func (r *Request) Fail(err error, why Reason) {
	if r.ended.Load() {
		return
	}
	if why == Canceled && r.Ctx != nil && errors.Is(context.Cause(r.Ctx), ErrSibling) {
		why = Backend
	}
	r.why = why
	_ = r.Respond(&backend.Response{Err: backend.AsError(err)}, true) // ErrEnded: someone was faster
}

// Ended reports whether the final response has been given.
func (r *Request) Ended() bool { return r.ended.Load() }

// Failure returns the first error that was given as a response, and why; nil
// for a success. For use in Finish and after.
func (r *Request) Failure() (*backend.Error, Reason) { return r.fail, r.why }

// Unheard reports whether nobody waited for the answer any more when the first error was
// given, whatever that says: it may be that of a model that has seen it.
func (r *Request) Unheard() bool { return r.unheard }

// Responses returns how many responses were given so far.
func (r *Request) Responses() int { return r.seen }

// Cancelled reports whether nobody waits for the answer any more.
func (r *Request) Cancelled() bool { return r.Ctx != nil && r.Ctx.Err() != nil }
