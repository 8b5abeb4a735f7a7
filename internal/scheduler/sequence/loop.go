package sequence

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
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
	Executor     scheduler.Executor
	Stats        *stats.Version
	Decoupled    bool
	States       []State
	// Allocator gives memory for inputs: state, and the data of unused slots.
	Allocator tensor.Allocator
	// Backlog is how many requests may wait in sequences that have no slot; 0 means
	// DefaultBacklog.
	Backlog int
	Logger  *slog.Logger
}

// Scheduler is the sequence batcher around its state machine.
//
// As with the dynamic batcher no goroutine owns the state: whoever brings an
// event applies it under the mutex and then does what came out of it. A request
// that finds its slot and an idle instance runs on the goroutine that brought
// it; batches of queued requests run on the driver's runners.
type Scheduler struct {
	model    string
	executor scheduler.Executor
	stats    *stats.Version

	decoupled bool

	log      *slog.Logger
	controls controls
	states   *states          // nil without
	order    *scheduler.Order // nil unless responses keep the order of requests
	nulls    nulls

	mu     sync.Mutex
	drive  *scheduler.Driver[batch]
	core   *batcher
	closed bool
	over   chan struct{} // closed when a stopped scheduler has no open sequence; nil before Stop
}

// New returns a scheduler. It starts nothing before the first request.
func New(o Options) *Scheduler {
	n, limit := o.Executor.Instances(), o.Backlog
	if limit <= 0 {
		limit = DefaultBacklog
	}
	s := &Scheduler{
		model: o.Model, executor: o.Executor, stats: o.Stats, decoupled: o.Decoupled, log: o.Logger,
		controls: newControls(o.Config, o.MaxBatchSize > 0), nulls: nulls{allocator: o.Allocator},
	}
	depth, limits := o.Executor.Depth(), o.Executor.Limits()
	if limits != nil {
		depth = 1
		limits.OnTurn(s.turn)
	}
	s.core = newBatcher(o.MaxBatchSize, o.Config, o.Compatible, n, depth, limit)
	s.core.limits = limits
	s.drive = scheduler.NewDriver(2*n, s.execute, s.finish, s.tick) // an instance holds two batches at most
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if len(o.States) > 0 {
		s.states = &states{list: o.States, model: o.Model, batching: o.MaxBatchSize > 0, allocator: o.Allocator}
		s.core.over = func(q *sequence) { q.state.end() }
	}
	if s.core.ordered {
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

// turn is the rate limiter's event: it is an instance's turn to run.
func (s *Scheduler) turn() {
	s.mu.Lock()
	s.stepLocked()
}

// stepLocked does what has become due, and lets go of the lock.
func (s *Scheduler) stepLocked() {
	var fx effects
	if !s.closed {
		s.core.step(backend.Now(), &fx)
		s.applyLocked(&fx, nil, true)
	}
	s.mu.Unlock()
	s.settle(&fx)
}

// applyLocked hands out the batches of fx, except one with the entry mine,
// which it returns unless it is to run elsewhere, and sets the timer.
func (s *Scheduler) applyLocked(fx *effects, mine *entry, elsewhere bool) (own *batch) {
	for _, e := range fx.turn {
		// A request that is already given up needs no place.
		if e.ticket == nil && e.request != nil && (e.queueing || e.slot != nil) {
			e.ticket = s.order.Add(e.request)
		}
	}
	for x := fx.start; x != nil; {
		next := x.next
		s.stats.Closed(x.reason)
		if mine != nil && own == nil && !elsewhere && slices.Contains(x.entries, mine) {
			own = x
		} else {
			s.drive.HandLocked(x)
		}
		x = next
	}
	s.overLocked()
	s.drive.AlarmLocked(s.core.wake())
	return own
}

// finish says that a batch has been executed; a runner gets the next one.
func (s *Scheduler) finish(x *batch, runner bool) (next *batch) {
	var fx effects
	now := backend.Now()
	s.mu.Lock()
	s.core.done(now, x, !s.closed, &fx)
	if runner {
		if next = fx.start; next != nil {
			fx.start = next.next
			s.stats.Closed(next.reason)
		} else {
			s.drive.ParkLocked()
		}
	}
	s.applyLocked(&fx, nil, false)
	s.mu.Unlock()
	s.settle(&fx)
	return next
}

// settle does what is to be done without the lock: it answers the requests of
// sequences that were given up, and tells other models that it is their turn.
func (s *Scheduler) settle(fx *effects) {
	s.answerFailed(fx.failed)
	fx.turns.Tell()
}

// execute leads to hop 5, with those of the batch that someone still waits for
// in their places.
func (s *Scheduler) execute(x *batch) {
	requests, real := x.requests[:0], 0
	var like *entry
	for _, e := range x.entries {
		if e == nil {
			requests = append(requests, nil)
			continue
		}
		s.left(e)
		if e.request.Cancelled() {
			e.cancelled = true
			s.fail(e, scheduler.ErrCancelled(), infer.Canceled)
			requests = append(requests, nil)
			continue
		}
		s.equip(e)
		requests = append(requests, e.request)
		real, like = len(requests), e
	}
	requests, err := s.fillUp(requests[:real], like)
	x.requests = requests
	switch {
	case err != nil:
		for _, e := range x.entries {
			if e != nil && !e.cancelled {
				e.answer.final.Store(true)
				e.answer.settle()
				s.fail(e, err, infer.Other)
			}
		}
	case len(requests) == 0:
	default: // a sequence has its instance
		s.executor.Insist(x.instance, requests)
	}
	for i, e := range x.entries {
		if e == nil || e.cancelled {
			continue
		}
		if s.core.iterative {
			x.entries[i] = nil // from now on it may be gone at any time
			e.late = true
			if !e.answer.over.Load() && !e.answer.whenSettled(func() { s.late(e) }) {
				x.late++
				continue
			}
			e.late = false
			x.entries[i] = e
		}
		s.executed(e)
	}
}

// executed notes how an execution of a request ended.
func (s *Scheduler) executed(e *entry) {
	e.cancelled, e.again = e.answer.vanished.Load(), e.answer.again.Load() && !e.answer.final.Load()
	if n := e.answer.runs.Load(); n != 0 {
		e.seq.life = n
	}
	if e.again {
		s.iterated(e)
		s.unequip(e)
		e.cancelled = e.request.Cancelled()
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
	var fx effects
	s.mu.Lock()
	s.core.executed(now, e, &fx)
	if !s.closed {
		s.core.step(now, &fx)
	}
	s.applyLocked(&fx, nil, true)
	s.mu.Unlock()
	s.settle(&fx)
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
	err := s.nulls.put(requests, like.request, like.inputs, func(inputs []tensor.Tensor) []tensor.Tensor {
		inputs = s.controls.add(inputs, 0, false, backend.CorrelationID{})
		if s.states != nil {
			inputs = s.states.first(inputs)
		}
		return inputs
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
	if e.answer == nil {
		e.answer = &answer{next: r.Responder, request: r, states: s.states, iterative: s.core.iterative}
		r.Responder = e.answer
	}
	e.answer.begin()
	if e.answer.lived = e.seq.life; e.start {
		e.answer.lived = 0
	}
	r.Flags = flags
	r.Inputs = s.controls.add(slices.Grow(r.Inputs, len(s.controls)), flags, true, r.Correlation)
	if s.states != nil {
		if e.seq.state == nil {
			e.seq.state = &state{}
		}
		e.answer.state = e.seq.state
		r.Inputs, e.answer.life = s.states.add(r.Inputs, e.seq.state, e.start)
	}
}

// unequip takes it away again.
func (s *Scheduler) unequip(e *entry) {
	r := e.request
	for i := e.inputs; i < len(r.Inputs); i++ {
		r.Inputs[i].Release()
	}
	clear(r.Inputs[e.inputs:])
	r.Inputs = r.Inputs[:e.inputs]
}

// answerFailed answers the requests of sequences that were given up.
func (s *Scheduler) answerFailed(e *entry) {
	for e != nil {
		next := e.next
		s.left(e)
		switch {
		case e.seq.slow:
			s.fail(e, backend.Errorf(backend.Unavailable, "sequence %s of model '%s' was ended: its client did not take the responses for %v, and others of the batch waited",
				name(e.request.Correlation), s.model, slowLimit), infer.Other)
		case e.seq.expired:
			s.fail(e, backend.Errorf(backend.Unavailable, "timeout of the corresponding sequence has been expired"), infer.Rejected)
		default:
			s.fail(e, scheduler.ErrCancelled(), infer.Canceled)
		}
		e = next
	}
}

// fail answers a request that is not executed.
func (s *Scheduler) fail(e *entry, err error, why infer.Reason) {
	if e.ticket != nil {
		e.ticket.Skip()
	}
	e.request.Fail(err, why)
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

// Stop refuses new sequences from now on; those that have begun may go on. The
// channel is closed when all of them have ended.
func (s *Scheduler) Stop() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.core.active)
}

// Close implements scheduler.Scheduler.
func (s *Scheduler) Close(ctx context.Context) error {
	var queued *entry
	var fx effects
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		queued = s.core.drain(&fx)
		s.overLocked()
		s.drive.CloseLocked()
	}
	s.mu.Unlock()
	fx.turns.Tell()
	for e := queued; e != nil; {
		next := e.next
		s.left(e)
		s.fail(e, errStopping(), infer.Other)
		e = next
	}
	return s.drive.Wait(ctx, s.nulls.close)
}
