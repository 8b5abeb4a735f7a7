package model

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// warmSink drops the responses of a warm-up batch and keeps the first error.
type warmSink struct {
	done chan struct{} // of as many as there are requests: Deliver does not wait

	mu  sync.Mutex
	err *backend.Error
}

// Deliver implements infer.Sink.
func (s *warmSink) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	if resp != nil {
		if resp.Err != nil {
			s.mu.Lock()
			if s.err == nil {
				s.err = resp.Err
			}
			s.mu.Unlock()
		}
		resp.Release()
	}
	if final {
		s.done <- struct{}{}
	}
}

func (s *warmSink) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return nil
	}
	return s.err
}

// warmOwner keeps warm-up requests out of the statistics unless they count.
type warmOwner struct {
	m     *Model
	count bool
}

// CheckResponse holds warm-up responses to the configuration as any other.
func (o warmOwner) CheckResponse(r *infer.Request, resp *backend.Response) {
	if o.count {
		o.m.CheckResponse(r, resp)
		return
	}
	resp.Err = o.m.io.checkResponse(r, resp)
}

// CountResponse implements infer.Owner.
func (o warmOwner) CountResponse(r *infer.Request, resp *backend.Response, index int) {
	if o.count {
		o.m.CountResponse(r, resp, index)
	}
}

// Finish implements infer.Owner.
func (o warmOwner) Finish(r *infer.Request) {
	if o.count {
		o.m.Finish(r)
	}
}
