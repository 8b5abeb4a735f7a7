package neso

import (
	"context"
	"errors"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// leavable is the sink of a request for which the caller need not wait.
type leavable interface {
	infer.Sink
	end() *ending
}

// ending is how the wait for a request ends.
type ending struct {
	done   chan struct{} // closed when nothing more comes
	last   func()        // called before that
	err    error         // of a request that was not taken
	mu     sync.Mutex
	leaves bool // the caller has left: nothing is for it any more
}

func (e *ending) end() *ending { return e }

func (e *ending) finish(err error) {
	e.err = err
	if e.last != nil {
		e.last()
	}
	close(e.done)
}

// wait returns the error of a request that was not taken, or errEnded when ctx
// ends first. Responses are then refused, once one that is being taken has been.
func (e *ending) wait(ctx context.Context) error {
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.done: // at the same moment
		return e.err
	default:
		e.leaves = true
		return errEnded(ctx)
	}
}

// errEnded is the error of a call whose context ended first. It is found to be
// context.DeadlineExceeded or context.Canceled, and the context's cause.
func errEnded(ctx context.Context) *backend.Error {
	cause, end := context.Cause(ctx), ctx.Err()
	message := cause.Error()
	if !errors.Is(cause, end) {
		cause = errors.Join(end, cause)
	}
	return &backend.Error{Code: backend.Cancelled, Message: message, Cause: cause}
}

// single is the sink of Infer.
type single struct {
	ending
	first *backend.Response
	count int
}

// Deliver is called by one goroutine at a time.
func (s *single) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	s.mu.Lock()
	if resp != nil {
		s.count++
		if s.first == nil && !s.leaves {
			s.first = resp
		} else {
			resp.Release()
		}
	}
	s.mu.Unlock()
	if final {
		s.finish(nil)
	}
}

// response waits for the one response.
func (s *single) response(ctx context.Context) (*backend.Response, error) {
	if err := s.wait(ctx); err != nil {
		s.first.Release() // one of several, as it turns out, or none
		return nil, err
	}
	resp := s.first
	switch {
	case resp != nil && resp.Err != nil:
		if resp.Err.Code == backend.Cancelled && ctx.Err() != nil {
			return nil, errEnded(ctx) // it was found in the queue, or the function gave up
		}
		return nil, resp.Err
	case s.count != 1:
		resp.Release()
		return nil, backend.Errorf(backend.Internal, "expected a single response, got %d", s.count)
	}
	return resp, nil
}

// streamSink hands responses to a function.
type streamSink struct {
	ending
	yield  func(*backend.Response) bool
	cancel func()
	enough bool // yield wants no more
	panics any  // what yield panicked with, for who waits
}

// Deliver is called by one goroutine at a time.
func (s *streamSink) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	s.mu.Lock()
	switch {
	case resp == nil:
	case s.leaves || s.enough:
		resp.Release()
	case !s.more(resp):
		s.enough = true
		s.cancel()
	}
	s.mu.Unlock()
	if final {
		s.finish(nil)
	}
}

// more reports whether yield wants more. It is the caller's code, on a goroutine
// of the model's: its panic is the caller's.
func (s *streamSink) more(resp *backend.Response) (more bool) {
	defer func() {
		if v := recover(); v != nil {
			s.panics, more = v, false
		}
	}()
	return s.yield(resp)
}

// await waits for the last response.
func (s *streamSink) await(ctx context.Context) error {
	err := s.wait(ctx)
	if s.panics != nil {
		panic(s.panics)
	}
	if s.enough {
		return nil
	}
	return err
}
