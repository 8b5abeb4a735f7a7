package infer

import "github.com/nesoserve/neso/backend"

// Single is the sink of a request that expects exactly one response. Its zero
// value is not usable; make it with NewSingle. It may be used again after Wait.
type Single struct {
	first *backend.Response
	count int
	done  chan struct{}
}

// NewSingle returns a sink for one request at a time.
func NewSingle() *Single {
	// One place: Deliver must not wait for Wait.
	return &Single{done: make(chan struct{}, 1)}
}

// Deliver keeps the first response and drops further ones, which make the
// request fail.
func (s *Single) Deliver(_ *Request, resp *backend.Response, final bool) {
	if resp != nil {
		s.count++
		if s.first == nil {
			s.first = resp
		} else {
			resp.Release()
		}
	}
	if final {
		s.done <- struct{}{}
	}
}

// Wait returns the one response, or an error: the response's own, or that there
// was not exactly one. The caller releases the response. Wait returns only
// after the final response: an answer is owed also to a cancelled request, so
// that no memory is in use when the front end lets go of it.
func (s *Single) Wait() (*backend.Response, *backend.Error) {
	<-s.done
	resp, n := s.first, s.count
	s.first, s.count = nil, 0
	if resp != nil && resp.Err != nil {
		return nil, resp.Err
	}
	if n != 1 {
		resp.Release()
		return nil, backend.Errorf(backend.Internal, "expected a single response, got %d", n)
	}
	return resp, nil
}
