package sequence

import (
	"context"
	"log/slog"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// DefaultBacklog is how many requests may wait in sequences that have no slot.
const DefaultBacklog = 8192

// Options configure a Scheduler.
type Options struct {
	Config       *modelconfig.SequenceBatching
	Model        string // its name, for texts
	MaxBatchSize int
	Compatible   *scheduler.Compatibility
	Executor     Executor
	Stats        *stats.Version
	Decoupled    bool
	States       []State
	// Allocator gives memory for inputs: state, and the data of unused slots.
	Allocator tensor.Allocator
	// Backlog is how many requests may wait in sequences that have no slot; 0 means
	// DefaultBacklog.
	Backlog int
	// Hold makes the first batch wait until so many requests are queued in slots,
	// with the oldest strategy in those of its instance, else in those of all and
	// HoldBacklog more in the backlog. For tests.
	Hold, HoldBacklog int
	Logger            *slog.Logger
}

// Executor is hop 5 as the sequence batcher sees it.
type Executor interface {
	scheduler.Instances
	// Insist runs a batch on the calling goroutine and answers each of its requests.
	// A batch of sequences cannot go elsewhere: it waits until the instance has begun
	// it.
	Insist(instance int, requests []*infer.Request)
}

// Scheduler is the sequence batcher around its state machine. A request that finds
// its slot and an idle instance runs on the goroutine that brought it; batches of
// queued requests run on the driver's runners.
type Scheduler struct {
	model    string
	executor Executor
	stats    *stats.Version
	limits   *ratelimit.Group // nil without a rate limiter
	drive    *scheduler.Driver[entry]

	decoupled bool

	log      *slog.Logger
	controls controls
	states   *states          // nil without
	order    *scheduler.Order // nil unless responses keep the order of requests
	nulls    nulls

	// Guarded by the driver's lock.
	core *batcher
	over chan struct{} // closed when a stopped scheduler has no open sequence; nil before Stop
}

// New returns a scheduler. It starts nothing before the first request.
func New(o Options) *Scheduler {
	limit := o.Backlog
	if limit <= 0 {
		limit = DefaultBacklog
	}
	s := &Scheduler{
		model: o.Model, executor: o.Executor, stats: o.Stats, limits: o.Executor.Limits(), decoupled: o.Decoupled, log: o.Logger,
		controls: newControls(o.Config, o.MaxBatchSize > 0), nulls: nulls{allocator: o.Allocator},
	}
	s.core = newBatcher(o.MaxBatchSize, o.Config, o.Compatible, o.Executor.Instances(), o.Executor.Depth(), limit)
	s.core.holdFor(o.Hold, o.HoldBacklog)
	s.drive = scheduler.NewDriver(o.Executor, o.Stats, scheduler.Events[entry]{
		Execute: s.execute, Done: s.done, Step: s.stepped, Fail: s.answerFailed, Vacant: func(i int) bool { return s.core.vacant(i) },
		Cancel: s.cancelled, Queued: func(e *entry) bool { return e.queueing },
	})
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if len(o.States) > 0 {
		s.states = &states{list: o.States, model: o.Model, batching: o.MaxBatchSize > 0, allocator: o.Allocator}
		s.core.over = func(q *sequence) { q.own.state.end() }
		if s.states.vary() {
			s.core.alike = s.states.alike
		}
	}
	if s.core.ordered {
		s.order = &scheduler.Order{}
	}
	return s
}

// stepped takes a step and returns when to take the next one. It is called with
// the lock held.
func (s *Scheduler) stepped(now int64, fx *effects) (wake int64) {
	step(now, s.core, s.limits, fx)
	return s.decidedLocked(fx)
}

// done says that a batch has been executed. It is called with the lock held.
func (s *Scheduler) done(now int64, x *batch, fx *effects) (wake int64) {
	done(now, s.core, s.limits, x, !s.drive.ClosedLocked(), fx)
	return s.decidedLocked(fx)
}

// decidedLocked does what follows from a decision beside what the driver does, and
// returns when to take the next step.
func (s *Scheduler) decidedLocked(fx *effects) (wake int64) {
	for _, e := range fx.Ordered {
		// A request that is already given up needs no place.
		if e.own.Ticket == nil && e.request != nil && (e.queueing || e.slot != nil) {
			e.own.Ticket = s.order.Add(e.request)
		}
	}
	s.overLocked()
	return s.core.wake()
}

// Change implements scheduler.Scheduler. Sequences stay where they are until they
// end: their state is there.
func (s *Scheduler) Change(come, leave []int, left func(int)) (bound []int) {
	fx := s.drive.Lock()
	for _, i := range come {
		s.core.join(i)
	}
	for _, i := range leave {
		if s.core.leave(i) {
			bound = append(bound, i)
		}
		s.drive.LeaveLocked(i, left)
	}
	if !s.drive.ClosedLocked() {
		step(backend.Now(), s.core, s.limits, fx)
	}
	s.drive.End(s.decidedLocked(fx), nil)
	return bound
}

// execute leads to hop 5, with those of the batch that someone still waits for
// in their places.
func (s *Scheduler) execute(x *batch) {
	requests := x.Requests[:0]
	var like *entry
	for _, e := range x.Entries {
		if e == nil {
			requests = append(requests, nil)
			continue
		}
		e.own.Left(s.stats)
		if e.request.Cancelled() {
			e.execution.gone = true
			s.fail(e, scheduler.ErrCancelled(), infer.Canceled)
			requests = append(requests, nil)
			continue
		}
		s.equip(e)
		requests = append(requests, e.request)
		like = e
	}
	if like == nil {
		requests = requests[:0]
	}
	requests, err := s.fillUp(requests, like)
	x.Requests = requests
	switch {
	case err != nil:
		for _, e := range x.Entries {
			if e != nil && !e.execution.gone {
				e.own.answer.final.Store(true)
				e.own.answer.settle()
				s.fail(e, err, infer.Other)
			}
		}
	case len(requests) == 0:
	default: // a sequence has its instance
		s.executor.Insist(x.Instance, requests)
	}
	for i, e := range x.Entries {
		if e == nil || e.execution.gone {
			continue
		}
		if s.core.iterative {
			x.Entries[i] = nil // from now on it may be gone at any time
			e.execution.late = true
			if !e.own.answer.over.Load() && !e.own.answer.whenSettled(func() { s.late(e) }) {
				x.Late++
				continue
			}
			e.execution.late = false
			x.Entries[i] = e
		}
		s.executed(e)
	}
}

// executed notes how an execution of a request ended.
func (s *Scheduler) executed(e *entry) {
	a, how := e.own.answer, &e.execution
	how.gone, how.again = a.vanished.Load(), a.again.Load() && !a.final.Load()
	if n := a.runs.Load(); n != 0 {
		e.seq.own.life = n
	}
	if how.again {
		s.iterated(e)
		s.unequip(e)
		how.gone = e.request.Cancelled()
	}
}

// iterated counts an execution after which the request runs once more. The last
// one is counted with the final response.
func (s *Scheduler) iterated(e *entry) {
	r := e.request
	t := &r.Times
	t.End = backend.Now()
	if b := r.Batch; b != nil {
		t.InputEnd = b.InputEnd
		if !s.decoupled {
			t.OutputStart = b.OutputStart
		}
	}
	t.ComputeEnd = t.End
	s.stats.Iterated(r)
	t.Queue, t.ComputeStart, t.InputEnd, t.OutputStart, t.ComputeEnd, t.End = t.End, 0, 0, 0, 0, 0
}

// late ends the execution of a request whose batch has ended before.
func (s *Scheduler) late(e *entry) {
	s.executed(e)
	now := backend.Now()
	fx := s.drive.Lock()
	s.core.executed(now, e, fx)
	if !s.drive.ClosedLocked() {
		step(now, s.core, s.limits, fx)
	}
	s.drive.End(s.decidedLocked(fx), nil)
}

// fillUp puts null requests, or with the oldest strategy nothing, in the places
// of missing ones.
func (s *Scheduler) fillUp(requests []*infer.Request, like *entry) ([]*infer.Request, error) {
	if !slices.Contains(requests, nil) {
		return requests, nil
	}
	if !s.core.direct {
		return slices.DeleteFunc(requests, func(r *infer.Request) bool { return r == nil }), nil
	}
	err := s.nulls.put(requests, like.request, like.own.inputs, func(inputs []tensor.Tensor) ([]tensor.Tensor, error) {
		inputs = s.controls.add(inputs, 0, false, backend.CorrelationID{})
		if s.states != nil {
			at := like.own.inputs + len(s.controls)
			return s.states.null(inputs, like.request.Inputs[at:at+len(s.states.list)], &s.nulls)
		}
		return inputs, nil
	})
	if err != nil {
		return nil, err
	}
	return requests, nil
}

// equip gives a request what the model is to see beside its inputs.
func (s *Scheduler) equip(e *entry) {
	r := e.request
	flags := r.Flags
	if !e.start {
		flags &^= backend.SequenceStart
	}
	if e.own.answer == nil {
		e.own.answer = &answer{next: r.Responder, request: r, states: s.states, iterative: s.core.iterative}
		if r.Responder, r.Held = e.own.answer, e.own.answer; s.core.iterative {
			r.Iterations = e.own.answer
		}
	}
	e.own.answer.begin()
	if e.own.answer.lived = e.seq.own.life; e.start {
		e.own.answer.lived = 0
	}
	r.Flags = flags
	r.Inputs = s.controls.add(slices.Grow(r.Inputs, len(s.controls)), flags, true, r.Correlation)
	if s.states != nil {
		if e.seq.own.state == nil {
			e.seq.own.state = &state{}
		}
		e.own.answer.state = e.seq.own.state
		r.Inputs, e.own.answer.life = s.states.add(r.Inputs, e.seq.own.state, e.start)
	}
}

// unequip takes it away again.
func (s *Scheduler) unequip(e *entry) {
	r := e.request
	for i := e.own.inputs; i < len(r.Inputs); i++ {
		r.Inputs[i].Release()
	}
	clear(r.Inputs[e.own.inputs:])
	r.Inputs = r.Inputs[:e.own.inputs]
}

// answerFailed answers the requests of sequences that were given up.
func (s *Scheduler) answerFailed(e *entry) {
	for e != nil {
		next := e.next
		switch {
		case e.seq.slow:
			s.fail(e, backend.Errorf(backend.Unavailable,
				"sequence %s of model '%s' was ended: its client did not take the responses for %v, and others of the batch waited",
				name(e.request.Correlation), s.model, slowLimit), infer.Other)
		case e.seq.expired:
			s.fail(e, backend.Errorf(backend.Unavailable, "timeout of the corresponding sequence has been expired"), infer.Rejected)
		default:
			s.fail(e, scheduler.ErrCancelled(), infer.Canceled)
		}
		e = next
	}
}

// fail answers a request that has left the queue and is not executed.
func (s *Scheduler) fail(e *entry, err error, why infer.Reason) {
	e.own.Left(s.stats)
	e.own.Skip()
	e.request.Fail(err, why)
}

// Stop refuses new sequences from now on; those that have begun may go on. The
// channel is closed when all of them have ended.
func (s *Scheduler) Stop() <-chan struct{} {
	s.drive.Lock()
	defer s.drive.Unlock()
	if s.over == nil {
		s.core.stopping, s.over = true, make(chan struct{})
		s.overLocked()
	}
	return s.over
}

// overLocked says once that a stopped scheduler has no open sequence any more.
func (s *Scheduler) overLocked() {
	if s.over == nil || s.core.open() {
		return
	}
	select {
	case <-s.over:
	default:
		close(s.over)
	}
}

// Open returns how many sequences have begun and not ended.
func (s *Scheduler) Open() int {
	s.drive.Lock()
	defer s.drive.Unlock()
	return len(s.core.active)
}

// Close implements scheduler.Scheduler.
func (s *Scheduler) Close(ctx context.Context) error {
	return s.drive.Close(ctx, func(fx *effects) *entry {
		queued := s.core.drain(fx)
		if s.limits != nil {
			s.limits.Withdraw(&fx.Turns)
		}
		s.overLocked()
		return queued
	}, s.refuse, s.nulls.close)
}

// refuse answers the requests that a closed scheduler does not execute.
func (s *Scheduler) refuse(e *entry) {
	for e != nil {
		next := e.next
		s.fail(e, errStopping(), infer.Other)
		e = next
	}
}
