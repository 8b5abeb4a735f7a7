package dynamic

import (
	"context"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/internal/stats"
)

// Options configure a Scheduler.
type Options struct {
	Config       *modelconfig.DynamicBatching
	MaxBatchSize int
	Compatible   *scheduler.Compatibility
	Executor     Executor
	Stats        *stats.Version
	// Hold makes the batcher wait once until so many requests are queued.
	Hold int
	// Joins, if not nil, is the model's say in which requests come into a batch; see
	// backend.BatchFormer.
	Joins func(requests []*backend.Request) (int, error)
	// Objective, if not 0, is within what time requests are to be answered. It replaces
	// the delay and the preferred sizes of Config; Joins must be nil.
	Objective time.Duration
}

// Executor is hop 5 as the dynamic batcher, which counts the batches of each
// instance itself, sees it.
type Executor interface {
	scheduler.Instances
	// Ahead reports whether a busy instance may be sent one more batch before it has
	// begun it, since it is quick. Such a batch may come back, see Execute.
	Ahead(instance int) bool
	// Up reports whether an instance can begin something, and OnUp has f called each
	// time that one can again. f may be called on any goroutine.
	Up(instance int) bool
	OnUp(f func())
	// Execute runs a batch on the calling goroutine and answers each of its
	// requests, or says that the instance has not begun it: then it is as it was, and
	// belongs into the queue.
	Execute(instance int, requests []*infer.Request) (begun bool)
	// ExecuteOne is Execute for a batch of one request.
	ExecuteOne(instance int, r *infer.Request) (begun bool)
	// Starts reports whether Start may be used.
	Starts() bool
	// Start is Execute without the wait for the model, and without answers. ended is called once
	// with what Execute would have returned, by another goroutine and perhaps before Start
	// has returned.
	Start(instance int, requests []*infer.Request, ended func(begun bool))
}

// mostStarted is how many bytes of inputs a batch may have that is started: they may be
// copied, for which neither a program's thread nor who reads a worker's answers is to wait.
const mostStarted = 64 << 10

// Scheduler is the dynamic batcher around its state machine. A request that finds
// an idle instance runs on the goroutine that brought it, without a switch;
// batches of queued requests run on the driver's runners.
type Scheduler struct {
	executor Executor
	stats    *stats.Version
	limits   *ratelimit.Group // nil without a rate limiter
	order    *scheduler.Order // nil unless responses keep the order of requests
	drive    *scheduler.Driver[entry]
	// objective is that of Options.
	objective time.Duration
	joins     func([]*backend.Request) (int, error) // nil for a model that has no say in its batches
	asking    sync.WaitGroup                        // of what asks it

	// Guarded by the driver's lock.
	core    *batcher
	senders []*sender // by instance
}

// New returns a scheduler. It starts nothing before the first request.
func New(o Options) *Scheduler {
	const depth = 2 // most
	s := &Scheduler{
		executor: o.Executor, stats: o.Stats, objective: o.Objective, limits: o.Executor.Limits(),
		core: newBatcher(o.MaxBatchSize, o.Config, o.Compatible, o.Executor.Instances(), depth, o.Hold),
	}
	s.core.up, s.core.second, s.core.placing = o.Executor.Up, s.second, s.placing
	if o.Objective > 0 {
		s.core.aimFor(o.Objective)
	}
	if s.joins = o.Joins; s.joins != nil {
		s.core.strategize()
	}
	s.drive = scheduler.NewDriver(o.Executor, o.Stats, scheduler.Events[entry]{
		Execute: s.execute, Start: s.start, Starts: s.starts, Done: s.done, Step: s.stepped, Fail: s.expired,
		Vacant: func(i int) bool { return s.core.load[i] == 0 }, Cancel: s.cancelled, Queued: func(e *entry) bool { return e.list != nil },
	})
	o.Executor.OnUp(s.drive.Soon)
	if o.Config.PreserveOrdering {
		s.order = &scheduler.Order{}
	}
	return s
}

// second reports whether a busy instance may have another batch: to run beside
// the first, or ahead.
func (s *Scheduler) second(i int) bool {
	return s.executor.Depth() > 1 || s.executor.Ahead(i) && s.senderOf(i).free()
}

// stepped takes a step and returns when to take the next one. It is called with
// the lock held.
func (s *Scheduler) stepped(now int64, fx *effects) (wake int64) {
	step(now, s.core, s.limits, fx)
	s.askLocked()
	return s.core.wake()
}

// done says that a batch has been executed or has come back. It is called with
// the lock held.
func (s *Scheduler) done(now int64, x *batch, fx *effects) (wake int64) {
	if s.core.load[x.Instance] == 1 {
		s.senderOf(x.Instance).busy.Store(false) // of a batch that went nowhere
	}
	switch {
	case !x.Back:
	case s.drive.ClosedLocked():
		s.overLocked(x, fx)
	default:
		s.queuedAgainLocked(now, x)
	}
	done(now, s.core, s.limits, x, fx)
	s.askLocked()
	return s.core.wake()
}

// queuedAgainLocked makes the entries of a batch that came back what they were.
func (s *Scheduler) queuedAgainLocked(now int64, x *batch) {
	for _, e := range x.Entries {
		if e.request == nil {
			continue
		}
		e.own.Pending = true
		s.stats.Enqueued()
		if e.request.Ctx != nil {
			s.drive.WatchLaterLocked(now, e.request.Ctx, e, &e.own)
		}
	}
}

// overLocked takes the entries out of a batch that came back when nothing is
// queued any more.
func (s *Scheduler) overLocked(x *batch, fx *effects) {
	var over, last *entry
	for _, e := range x.Entries {
		if e.request == nil {
			continue
		}
		lost := &entry{request: e.request, own: scheduler.Waiting{Ticket: e.own.Ticket}}
		if e.request = nil; last == nil {
			over = lost
		} else {
			last.next = lost
		}
		last = lost
	}
	fx.After = append(fx.After, func() { s.refuse(over) })
}

// execute leads to hop 5.
func (s *Scheduler) execute(x *batch) {
	requests, gone := s.leave(x)
	refuseGone(gone)
	switch len(requests) {
	case 0:
	case 1:
		x.Back = !s.executor.ExecuteOne(x.Instance, requests[0])
	default:
		x.Back = !s.executor.Execute(x.Instance, requests)
	}
}

// starts reports whether a batch is one for start. It is called with the lock held.
func (s *Scheduler) starts(x *batch) bool {
	if !s.executor.Starts() {
		return false
	}
	bytes := 0
	for _, e := range x.Entries {
		for i := range e.request.Inputs {
			bytes += e.request.Inputs[i].Size()
		}
	}
	return bytes <= mostStarted
}

// start leads to hop 5 without a wait, and answers nothing.
func (s *Scheduler) start(x *batch) {
	if x.Ended == nil {
		x.Ended = func(begun bool) {
			x.Back = !begun
			s.drive.Ended(x)
		}
	}
	requests, gone := s.leave(x)
	if len(requests) == 0 {
		go func() { // it ends with the requests, whose pins hold the version
			refuseGone(gone)
			x.Ended(true)
		}()
		return
	}
	if len(gone) > 0 {
		go refuseGone(gone) // likewise
	}
	s.executor.Start(x.Instance, requests, x.Ended)
}

// leave takes a batch out of the queue. It returns those that someone still waits for, and
// those that are gone, which are to be refused.
func (s *Scheduler) leave(x *batch) (requests []*infer.Request, gone []given) {
	requests = x.Requests[:0]
	for _, e := range x.Entries {
		e.own.Left(s.stats)
		if e.request.Cancelled() {
			gone = append(gone, given{e.request, e.own.Ticket})
			e.request = nil
			continue
		}
		requests = append(requests, e.request)
	}
	x.Requests = requests
	if len(requests) > 0 {
		requests[0].Placed = x.Placed
	}
	return requests, gone
}

// given is a request that nobody waits for any more, with its turn among those whose
// responses keep an order.
type given struct {
	request *infer.Request
	ticket  *scheduler.Ticket // nil for none
}

// refuseGone answers requests that nobody waits for any more.
func refuseGone(gone []given) {
	for _, g := range gone {
		if g.ticket != nil {
			g.ticket.Skip()
		}
		g.request.Fail(scheduler.ErrCancelled(), infer.Canceled)
	}
}

// expired answers the requests whose time was up.
func (s *Scheduler) expired(e *entry) {
	for e != nil {
		next := e.next
		err := backend.Errorf(backend.Unavailable, "Request timeout expired")
		if s.objective > 0 {
			err = s.tooLate(e.request, 0)
		}
		s.fail(e, err, infer.Rejected)
		e = next
	}
}

// refuse answers the requests that a closed scheduler does not execute.
func (s *Scheduler) refuse(e *entry) {
	for e != nil {
		next := e.next
		s.fail(e, scheduler.ErrStopping(e.request), infer.Other)
		e = next
	}
}

// fail answers a request that has left the queue and will not be executed.
func (s *Scheduler) fail(e *entry, err error, why infer.Reason) {
	e.own.Left(s.stats)
	e.own.Skip()
	e.request.Fail(err, why)
}

// Change implements scheduler.Scheduler.
func (s *Scheduler) Change(come, leave []int, left func(int)) (bound []int) {
	fx := s.drive.Lock()
	s.core.change(come, leave)
	for _, i := range leave {
		if s.limits != nil {
			s.limits.WithdrawOne(i, &fx.Turns)
		}
		s.drive.LeaveLocked(i, left)
	}
	wake := int64(0)
	if !s.drive.ClosedLocked() {
		wake = s.stepped(backend.Now(), fx)
	}
	s.drive.End(wake, nil)
	return nil
}

// Close implements scheduler.Scheduler.
func (s *Scheduler) Close(ctx context.Context) error {
	return s.drive.Close(ctx, func(fx *effects) *entry {
		queued := s.core.drain(fx)
		withdraw(s.limits, fx)
		return queued
	}, s.refuse, s.asking.Wait)
}
