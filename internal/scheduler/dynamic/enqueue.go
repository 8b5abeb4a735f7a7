package dynamic

import (
	"runtime"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/scheduler"
)

// Enqueue queues a request, or runs it at once if it completes a batch for an
// idle instance, unless its goroutine has more to do; see scheduler.Scheduler.
func (s *Scheduler) Enqueue(r *infer.Request) error {
	if r.Cancelled() {
		r.Fail(scheduler.ErrCancelled(), infer.Canceled)
		return nil
	}
	now := backend.Now()
	r.Times.Queue = now
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return scheduler.ErrStopping(r)
	}
	e := s.core.entry()
	e.request = r
	if !s.core.enqueue(now, e) {
		s.core.free(e)
		s.mu.Unlock()
		return &backend.Error{Code: backend.Unavailable, Message: r.LogPrefix() + "Exceeds maximum queue size", RetryAfter: time.Second}
	}
	if s.order != nil {
		e.ticket = s.order.Add(r)
	}
	if s.core.crowded() {
		// Others are about to bring their requests: those that can run at once do so
		// first, and the batch takes them along. It costs a lone request nothing.
		life := e.life
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
		if e.life != life || e.list == nil {
			s.mu.Unlock()
			return nil // it went off with another one, or was refused
		}
		now = backend.Now()
	}
	var fx effects
	s.core.step(now, &fx)
	if e.list != nil {
		e.pending = true
		s.stats.Enqueued()
		if r.Ctx != nil {
			s.watchLocked(now, r.Ctx, e)
		}
	}
	own := e
	if r.Background {
		own = nil
	}
	mine := s.applyLocked(&fx, own)
	s.mu.Unlock()
	s.settle(&fx)
	if mine != nil {
		s.drive.Run(mine)
	}
	return nil
}

// Place gives a request that is answered without being executed its turn among
// those that are, and returns where its answer goes.
func (s *Scheduler) Place(r *infer.Request) backend.Responder {
	if s.order == nil {
		return r
	}
	return s.order.Add(r)
}

// cancel answers a request that was cancelled while queued.
func (s *Scheduler) cancel(e *entry, life uint64) {
	s.mu.Lock()
	if e.life != life || !s.core.cancel(e) {
		s.mu.Unlock()
		return
	}
	now := backend.Now()
	var fx effects
	s.core.step(now, &fx)
	s.applyLocked(&fx, nil)
	s.mu.Unlock()
	s.leave(e)
	e.request.Fail(scheduler.ErrCancelled(), infer.Canceled)
	s.settle(&fx)
}
