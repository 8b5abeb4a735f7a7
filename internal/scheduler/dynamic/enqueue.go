package dynamic

import (
	"runtime"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/scheduler"
)

// Enqueue queues a request, or runs it at once if it completes a batch for an
// idle instance, unless its goroutine has more to do: then it starts it, where
// the instances can. See scheduler.Scheduler.
func (s *Scheduler) Enqueue(r *infer.Request) error {
	if r.Cancelled() {
		r.Fail(scheduler.ErrCancelled(), infer.Canceled)
		return nil
	}
	now := backend.Now()
	r.Times.Queue = now
	fx := s.drive.Lock()
	if s.drive.ClosedLocked() {
		s.drive.Unlock()
		return scheduler.ErrStopping(r)
	}
	if retry, ok := s.core.admits(now, r.Size()); !ok {
		s.drive.Unlock()
		return s.tooLate(r, retry)
	}
	e := s.core.entries.Take()
	e.request = r
	if !s.core.enqueue(now, e) {
		s.core.free(e)
		s.drive.Unlock()
		return &backend.Error{Code: backend.Unavailable, Message: r.LogPrefix() + "Exceeds maximum queue size", RetryAfter: time.Second}
	}
	if s.order != nil {
		e.own.Ticket = s.order.Add(r)
	}
	if !r.Detached && s.core.moreComing() {
		// Others are about to bring their requests: those that can run at once do so
		// first, and the batch takes them along. It costs a lone request nothing.
		life := e.own.Life
		s.drive.Unlock()
		runtime.Gosched()
		s.drive.Lock()
		if e.own.Life != life || e.list == nil {
			s.drive.Unlock()
			return nil // it went off with another one, or was refused
		}
		now = backend.Now()
	}
	wake := s.stepped(now, fx)
	if e.list != nil {
		e.own.Pending = true
		s.stats.Enqueued()
		if r.Ctx != nil {
			s.drive.WatchLaterLocked(now, r.Ctx, e, &e.own)
		}
	}
	if r.Detached {
		s.drive.EndAndStart(wake, e)
		return nil
	}
	mine := e
	if r.Background {
		mine = nil
	}
	if x := s.drive.End(wake, mine); x != nil {
		s.drive.Run(x)
	}
	return nil
}

// tooLate is the answer to a request that cannot be answered in time.
func (s *Scheduler) tooLate(r *infer.Request, retry time.Duration) *backend.Error {
	return &backend.Error{
		Code: backend.Unavailable, RetryAfter: max(retry, time.Millisecond),
		Message: r.LogPrefix() + "cannot be answered within the latency objective of " + s.objective.String(),
	}
}

// InOrder gives a request that is answered without being executed its turn among
// those that are, and returns where its answer goes.
func (s *Scheduler) InOrder(r *infer.Request) backend.Responder {
	if s.order == nil {
		return r
	}
	return s.order.Add(r)
}

// cancelled takes a request that was cancelled out of the queue. It is called with
// the lock held.
func (s *Scheduler) cancelled(now int64, e *entry, fx *effects) (wake int64) {
	s.core.cancel(e)
	wake = s.stepped(now, fx)
	fx.After = append(fx.After, func() { s.fail(e, scheduler.ErrCancelled(), infer.Canceled) })
	return wake
}
