package dynamic

import (
	"context"
	"slices"
	"sync"
	"time"

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
// that brought it, without a switch. Batches of queued requests run on runner
// goroutines, as many as batches run at once; an idle model has none that runs.
type Scheduler struct {
	executor scheduler.Executor
	stats    *stats.Version
	order    *scheduler.Order // nil unless responses keep the order of requests

	runners sync.WaitGroup
	work    chan *batch // to parked runners; has room for all of them

	mu     sync.Mutex
	core   *batcher
	closed bool
	parked int // runners that wait for work, less the batches on their way
	timer  *time.Timer
	armed  int64 // when the timer fires; 0 when it does not
}

// New returns a scheduler. It starts nothing before the first request.
func New(o Options) *Scheduler {
	n, depth := o.Executor.Instances(), o.Executor.Depth()
	s := &Scheduler{
		executor: o.Executor, stats: o.Stats,
		core: newBatcher(o.MaxBatchSize, o.Config, o.Compatible, n, depth, o.Hold),
		work: make(chan *batch, 2*n), // an instance holds two batches at most
	}
	if o.Config.PreserveOrdering {
		s.order = &scheduler.Order{}
	}
	return s
}

// stepLocked lets the batcher decide. The executor may have stopped taking
// batches ahead.
func (s *Scheduler) stepLocked(now int64, fx *effects) {
	if s.core.prefetch && s.executor.Depth() == 1 {
		s.core.prefetch = false
	}
	s.core.step(now, fx)
}

// tick is the timer's event.
func (s *Scheduler) tick() {
	s.mu.Lock()
	s.armed = 0
	var fx effects
	if !s.closed {
		now := backend.Now()
		s.stepLocked(now, &fx)
		s.applyLocked(now, &fx, nil)
	}
	s.mu.Unlock()
	s.refuse(fx.expired)
}

// applyLocked hands out the batches of fx, except one with the entry mine,
// which it returns, and sets the timer.
func (s *Scheduler) applyLocked(now int64, fx *effects, mine *entry) (own *batch) {
	for x := fx.start; x != nil; {
		next := x.next
		if mine != nil && own == nil && slices.Contains(x.entries, mine) {
			own = x
		} else {
			s.handLocked(x)
		}
		x = next
	}
	if at := s.core.wake(); at != 0 && (s.armed == 0 || at < s.armed) {
		s.armed = at
		d := time.Duration(max(0, at-now))
		if s.timer == nil {
			s.timer = time.AfterFunc(d, s.tick)
		} else {
			s.timer.Reset(d)
		}
	}
	return own
}

// handLocked gives a batch to a runner: one that waits, or a new one.
func (s *Scheduler) handLocked(x *batch) {
	if s.parked > 0 {
		s.parked--
		s.work <- x
		return
	}
	s.runners.Go(func() {
		for ok := true; ok; x, ok = <-s.work {
			s.run(x, true)
		}
	})
}

// run executes a batch, and with runner set all those that follow from it; then
// the runner counts as parked.
func (s *Scheduler) run(x *batch, runner bool) {
	for x != nil {
		s.execute(x)
		now := backend.Now()
		s.mu.Lock()
		s.core.done(x)
		var fx effects
		s.stepLocked(now, &fx)
		x = nil
		if runner && fx.start != nil {
			x = fx.start
			fx.start = x.next
		}
		s.applyLocked(now, &fx, nil)
		if runner && x == nil {
			s.parked++
		}
		s.mu.Unlock()
		s.refuse(fx.expired)
	}
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
			e.request.Fail(scheduler.ErrCancelled(), infer.Canceled)
			continue
		}
		requests = append(requests, e.request)
	}
	x.requests = requests
	switch len(requests) {
	case 0:
	case 1:
		s.executor.ExecuteOne(x.slot, requests[0])
	default:
		s.executor.Execute(x.slot, requests)
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
	}
	if e.pending {
		s.stats.Dequeued()
	}
}

// leave is left for an entry that will not be executed.
func (s *Scheduler) leave(e *entry) {
	s.left(e)
	if e.ticket != nil {
		e.ticket.Skip()
	}
}

// Closed returns how many batches were closed for each reason.
func (s *Scheduler) Closed() (counts [reasons]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.closed
}

// Close implements scheduler.Scheduler.
func (s *Scheduler) Close(ctx context.Context) error {
	s.mu.Lock()
	var queued *entry
	if !s.closed {
		s.closed = true
		queued = s.core.drain()
		if s.timer != nil {
			s.timer.Stop()
		}
		close(s.work) // sends are under the mutex, and there is nothing left to send
	}
	s.mu.Unlock()
	for e := queued; e != nil; {
		next := e.next
		s.leave(e)
		e.request.Fail(scheduler.ErrStopping(e.request), infer.Other)
		e = next
	}
	stopped := make(chan struct{})
	go func() {
		s.runners.Wait()
		close(stopped)
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
