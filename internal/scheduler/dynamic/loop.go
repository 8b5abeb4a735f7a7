package dynamic

import (
	"context"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/internal/stats"
)

// Options configure a Scheduler.
type Options struct {
	Config       *modelconfig.DynamicBatching
	MaxBatchSize int
	Compatible   *scheduler.Compatibility
	Executor     scheduler.Executor
	Stats        *stats.Version
	// Hold makes the batcher wait once until so many requests are queued.
	Hold int
}

// Scheduler is the dynamic batcher around its state machine.
//
// There is no goroutine that owns the state: whoever brings an event applies it
// under the mutex, which takes well below a microsecond, and then does what came
// out of it. So a request that finds an idle instance runs on the goroutine
// that brought it, without a switch. Batches of queued requests run on the
// driver's runners.
type Scheduler struct {
	executor scheduler.Executor
	stats    *stats.Version
	order    *scheduler.Order // nil unless responses keep the order of requests

	mu     sync.Mutex
	drive  *scheduler.Driver[batch]
	core   *batcher
	young  young
	closed bool
}

// New returns a scheduler. It starts nothing before the first request.
func New(o Options) *Scheduler {
	n, depth := o.Executor.Instances(), 2 // most
	limits := o.Executor.Limits()
	if limits != nil {
		depth = 1
	}
	s := &Scheduler{
		executor: o.Executor, stats: o.Stats,
		core: newBatcher(o.MaxBatchSize, o.Config, o.Compatible, n, depth, o.Hold),
	}
	s.core.up, s.core.second = o.Executor.Up, s.second
	o.Executor.OnUp(s.turn)
	s.drive = scheduler.NewDriver(2*n, s.execute, s.finish, s.tick) // an instance holds two batches at most
	if limits != nil {
		s.core.limits = limits
		limits.OnTurn(s.turn)
	}
	if o.Config.PreserveOrdering {
		s.order = &scheduler.Order{}
	}
	return s
}

// tick is the timer's event.
func (s *Scheduler) tick() {
	s.mu.Lock()
	s.drive.RangLocked()
	s.stepLocked()
}

// turn is the rate limiter's event, that it is an instance's turn to run, and
// the executor's, that an instance is there again.
func (s *Scheduler) turn() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.stepLocked()
}

// second reports whether a busy instance may have another batch: to run beside
// the first, or ahead.
func (s *Scheduler) second(i int) bool { return s.executor.Depth() > 1 || s.executor.Ahead(i) }

// stepLocked does what has become due, and lets go of the lock.
func (s *Scheduler) stepLocked() {
	var fx effects
	now := backend.Now()
	s.core.step(now, &fx)
	s.applyLocked(&fx, nil)
	s.mu.Unlock()
	s.settle(&fx)
}

// applyLocked hands out the batches of fx, except one with the entry mine,
// which it returns, and sets the timer.
func (s *Scheduler) applyLocked(fx *effects, mine *entry) (own *batch) {
	for x := fx.start; x != nil; {
		next := x.next
		s.stats.Closed(x.reason)
		if mine != nil && own == nil && slices.Contains(x.entries, mine) {
			own = x
		} else {
			s.drive.HandLocked(x)
		}
		x = next
	}
	s.drive.AlarmLocked(s.core.wake())
	return own
}

// finish says that a batch has been executed; a runner gets the next one.
func (s *Scheduler) finish(x *batch, runner bool) (next *batch) {
	var fx effects
	now := backend.Now()
	s.mu.Lock()
	var over []entry
	if x.back {
		if s.closed {
			over = s.overLocked(x)
		} else {
			s.queuedAgainLocked(now, x)
		}
	}
	s.core.done(now, x, &fx)
	if runner {
		if next = fx.start; next != nil {
			fx.start = next.next
			s.stats.Closed(next.reason)
		} else {
			s.drive.ParkLocked()
		}
	}
	s.applyLocked(&fx, nil)
	s.mu.Unlock()
	s.settle(&fx)
	for _, e := range over {
		s.leave(&e)
		e.request.Fail(scheduler.ErrStopping(e.request), infer.Other)
	}
	return next
}

// queuedAgainLocked makes the entries of a batch that came back what they were.
func (s *Scheduler) queuedAgainLocked(now int64, x *batch) {
	for _, e := range x.entries {
		if e.request == nil {
			continue
		}
		e.pending = true
		s.stats.Enqueued()
		if e.request.Ctx != nil {
			s.watchLocked(now, e.request.Ctx, e)
		}
	}
}

// overLocked takes the entries out of a batch that came back when nothing is
// queued any more.
func (s *Scheduler) overLocked(x *batch) (over []entry) {
	for _, e := range x.entries {
		if e.request != nil {
			over = append(over, entry{request: e.request, ticket: e.ticket})
			e.request = nil
		}
	}
	return over
}

// settle does what is to be done without the lock: it answers the requests
// whose time was up, and tells other models that it is their turn.
func (s *Scheduler) settle(fx *effects) {
	s.refuse(fx.expired)
	fx.turns.Tell()
}

// execute leads to hop 5, with those of the batch that someone still waits for.
func (s *Scheduler) execute(x *batch) {
	requests := x.requests[:0]
	for _, e := range x.entries {
		s.left(e)
		if e.request.Cancelled() {
			if e.ticket != nil {
				e.ticket.Skip()
			}
			r := e.request
			e.request = nil
			r.Fail(scheduler.ErrCancelled(), infer.Canceled)
			continue
		}
		requests = append(requests, e.request)
	}
	x.requests = requests
	switch len(requests) {
	case 0:
	case 1:
		x.back = !s.executor.ExecuteOne(x.slot, requests[0])
	default:
		x.back = !s.executor.Execute(x.slot, requests)
	}
}

// refuse answers the requests whose time was up.
func (s *Scheduler) refuse(e *entry) {
	for e != nil {
		next := e.next
		s.leave(e)
		e.request.Fail(backend.Errorf(backend.Unavailable, "Request timeout expired"), infer.Rejected)
		e = next
	}
}

// left ends what being queued means for an entry.
func (s *Scheduler) left(e *entry) {
	if e.stop != nil {
		e.stop()
		e.stop = nil
	}
	if e.pending {
		s.stats.Dequeued()
		e.pending = false
	}
}

// leave is left for an entry that will not be executed.
func (s *Scheduler) leave(e *entry) {
	s.left(e)
	if e.ticket != nil {
		e.ticket.Skip()
	}
}

// Close implements scheduler.Scheduler.
func (s *Scheduler) Close(ctx context.Context) error {
	var queued *entry
	var fx effects
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		queued = s.core.drain(&fx)
		s.drive.CloseLocked()
		if s.young.timer != nil {
			s.young.timer.Stop()
		}
	}
	s.mu.Unlock()
	s.settle(&fx)
	for e := queued; e != nil; {
		next := e.next
		s.leave(e)
		e.request.Fail(scheduler.ErrStopping(e.request), infer.Other)
		e = next
	}
	return s.drive.Wait(ctx, nil)
}
