package ensemble

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/tensor"
)

// run drives one request: it feeds the flow with what the steps answer, and
// carries out what the flow decides. One goroutine, that of Enqueue, does so;
// the steps' answers come from others and wait in events.
type run struct {
	s       *Scheduler
	r       *infer.Request
	flow    flow
	ctx     context.Context // of the steps: ends with the request's, and when one fails
	cancel  context.CancelCauseFunc
	sum     [4]int64  // nanoseconds: queue, always 0; input, infer and output of the steps
	parked  [][]start // by step, waiting for a permit; nil without limiters
	nPark   int
	taken   []event // by the driver, to be handled
	unused  []*stepRequest
	targets []Target       // by step: the models that are needed
	devices bool           // one of them takes tensors on GPUs
	queues  []stepQueue    // by step
	passed  []uint32       // by edge: tensors that have gone along it, not tallied yet
	work    sync.WaitGroup // goroutines that hand requests over

	last *backend.Response // of a decoupled ensemble, to be delivered as the final one; or nil

	wake chan struct{} // of capacity 1: there are events

	mu     sync.Mutex
	room   sync.Cond // on mu: a scope is gone, or the run has failed
	events []event
	live   []int  // by label: scopes that exist, or are on their way in an event
	free   bool   // has failed or was cancelled: nobody waits for room any more
	busy   bool   // the driver is delivering, a client may be slow
	loose  []bool // by label: its producers no longer wait for room
}

// event is what others tell the driver.
type event struct {
	at     start
	from   *stepRequest // of an answer
	resp   *backend.Response
	final  bool
	room   bool // the response is counted in live
	permit bool // a permit for at.step
}

var errStopping = errors.New("the ensemble is being unloaded")

func newRun(s *Scheduler) *run {
	x := &run{
		s: s, wake: make(chan struct{}, 1), live: make([]int, s.g.labels), loose: make([]bool, s.g.labels),
		queues: make([]stepQueue, len(s.g.steps)), targets: make([]Target, len(s.g.steps)),
		passed: make([]uint32, s.g.edges),
	}
	x.room.L = &x.mu
	if s.limits != nil {
		x.parked = make([][]start, len(s.g.steps))
	}
	return x
}

func (x *run) begin(r *infer.Request) {
	x.r = r
	parent := r.Ctx
	if parent == nil {
		parent = context.Background()
	}
	x.ctx, x.cancel = context.WithCancelCause(parent)
	now := backend.Now()
	r.Times.Queue, r.Times.ComputeStart = now, now
	r.Times.Steps = &x.sum
	if r.Spans != nil {
		r.Spans.Steps = true
	}
	for i := range x.s.g.steps {
		st := &x.s.g.steps[i]
		x.loose[st.makes] = st.unbound // a decoupled step alone makes its label
	}
	x.flow.begin(x.s.g, x.s.g.need(r.Requested), r.Inputs)
}

// reset makes the run ready for another request.
func (x *run) reset() {
	x.flow.finish()
	x.r, x.ctx, x.cancel, x.last = nil, nil, nil, nil
	x.sum = [4]int64{}
	x.free, x.busy, x.devices = false, false, false
	clear(x.live)
}

// drive takes the request from its first step to its final response.
func (x *run) drive() {
	x.pin()
	x.settleInputs()
	x.advance()
	for !x.flow.done() {
		for _, e := range x.wait() {
			x.handle(e)
			x.advance() // what is whole is answered, also where the next event is a failure
		}
	}
	x.settle()
	x.finish()
	x.cancel(nil)
	x.work.Wait()
	x.unpin()
}

// advance starts the steps that can start, and delivers what is whole.
func (x *run) advance() {
	for at, ok := x.flow.next(); ok; at, ok = x.flow.next() {
		x.start(at)
	}
	x.answer()
}

// wait returns what has happened, at least one thing.
func (x *run) wait() []event {
	clear(x.taken)
	for {
		x.mu.Lock()
		x.taken, x.events = x.events, x.taken[:0]
		x.mu.Unlock()
		if len(x.taken) > 0 {
			return x.taken
		}
		if x.nPark == 0 {
			<-x.wake // every step that is in flight is answered, also a cancelled one
			continue
		}
		select {
		case <-x.wake:
		case <-x.ctx.Done():
			x.fail(scheduler.ErrCancelled())
			if x.flow.done() {
				return nil
			}
		}
	}
}

// push tells the driver something.
func (x *run) push(e event) {
	x.mu.Lock()
	x.events = append(x.events, e)
	x.mu.Unlock()
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

func (x *run) handle(e event) {
	if e.permit {
		x.permit(e.at.step)
		return
	}
	st := &x.s.g.steps[e.at.step]
	if e.resp != nil {
		x.response(e, st)
	}
	if !e.final {
		return
	}
	// What the steps waited is in their own numbers: an ensemble has no queue.
	for i, ns := range e.from.phases[1:] {
		x.sum[i+1] += ns
	}
	e.from.free(x)
	x.flow.end(e.at)
	x.retire(e.at.scope)
}

// response takes one response of a step.
func (x *run) response(e event, st *step) {
	e.from.seen++
	decoupled := st.makes != st.label
	switch {
	case e.resp.Err != nil:
		x.fail(e.resp.Err)
	case !decoupled && e.from.seen > 1:
		x.fail(backend.Errorf(backend.Internal, "expected a single response of model '%s', got more", st.model))
	}
	if decoupled { // there may be many before the request ends
		x.s.mu.Lock()
		x.s.tallyLocked(x)
		x.s.mu.Unlock()
	}
	if x.flow.err != nil {
		e.resp.Release()
		if e.room {
			x.gone(st.makes)
		}
		return
	}
	if opened := x.flow.put(e.at, e.resp.Outputs, e.from.follow(e.resp.Parameters)); opened != nil {
		x.retire(opened)
	}
}

// retire lets go of a scope that is not needed any more.
func (x *run) retire(s *scope) {
	if label := s.label; x.flow.retire(s) {
		x.gone(label)
	}
}

// fail keeps the first failure and ends the steps in flight.
func (x *run) fail(err *backend.Error) {
	if x.flow.err == nil {
		x.cancel(infer.ErrSibling)
	}
	x.flow.fail(err)
	for i := range x.parked {
		x.s.limits[i].forget(x)
		for _, at := range x.parked[i] {
			x.flow.end(at)
		}
		x.parked[i] = x.parked[i][:0]
	}
	x.nPark = 0
	x.mu.Lock()
	x.free = true
	x.mu.Unlock()
	x.room.Broadcast()
}

// answer delivers the responses of a decoupled ensemble that are whole, but for
// the one behind which nothing comes: that is the final one.
func (x *run) answer() {
	for s := x.flow.answer(); s != nil; {
		if s.missing > 0 { // a step has ended without an answer
			x.retire(s)
			s = x.flow.answer()
			continue
		}
		outputs, q := x.flow.outputs(s, nil)
		x.retire(s)
		x.tell(outputs)
		x.leave()
		s = x.flow.answer()
		resp := &backend.Response{Outputs: outputs, Parameters: x.parameters(q)}
		if s == nil && x.flow.done() && !x.r.Cancelled() {
			x.last = resp
			return
		}
		x.deliver(resp)
		if x.r.Cancelled() {
			x.fail(scheduler.ErrCancelled())
			s = nil
		}
	}
}

func (x *run) deliver(resp *backend.Response) {
	x.mu.Lock()
	x.busy = true
	x.mu.Unlock()
	_ = x.r.Respond(resp, false) // a cancelled request is seen by its context
	x.mu.Lock()
	x.busy = false
	x.mu.Unlock()
}

// settle gives back permits that came when nobody needed them.
func (x *run) settle() {
	for i, l := range x.s.limits {
		l.forget(x)
		x.parked[i] = x.parked[i][:0]
	}
	x.mu.Lock()
	x.taken, x.events = x.events, x.taken[:0]
	x.mu.Unlock()
	for _, e := range x.taken {
		if e.permit {
			x.s.limits[e.at.step].give(e.at.step)
		}
	}
	clear(x.taken)
}

// finish gives the final response.
func (x *run) finish() {
	g, f := x.s.g, &x.flow
	var outputs []tensor.Tensor
	var q sequence
	if f.err == nil && g.outLabel == 0 {
		outputs, q = f.outputs(f.root, make([]tensor.Tensor, 0, len(f.n.outputs)))
		if f.root.missing > 0 { // a step has ended without an answer
			f.fail(&backend.Error{Code: backend.InvalidArg, Message: x.r.LogPrefix() +
				"unexpected deadlock, at least one output is not set while no more ensemble steps can be made"})
			(&backend.Response{Outputs: outputs}).Release()
		} else {
			x.tell(outputs)
			x.leave()
		}
	}
	switch {
	case f.err != nil:
		x.refuse(f.err)
		return
	case g.outLabel == 0:
		x.count()
		_ = x.r.Respond(&backend.Response{Outputs: outputs, Parameters: x.parameters(q)}, true)
	default:
		x.count()
		_ = x.r.Respond(x.last, true)
	}
}

// tell says which outputs of a response no step gave, in the peer's words.
func (x *run) tell(outputs []tensor.Tensor) {
	if len(outputs) == len(x.flow.n.outputs) || !x.s.o.Logger.Enabled(x.ctx, logging.Verbose(1)) {
		return
	}
	for _, o := range x.flow.n.outputs {
		name := x.s.g.outputs[o].name
		if !slices.ContainsFunc(outputs, func(t tensor.Tensor) bool { return t.Name == name }) {
			//nolint:sloglint // worded as in Triton, which scripts look for
			x.s.o.Logger.Log(x.ctx, logging.Verbose(1), "Composing models did not output tensor "+name)
		}
	}
}

// refuse answers with the failure of a step.
func (x *run) refuse(err *backend.Error) {
	why := infer.Other
	switch cause := context.Cause(x.ctx); {
	case x.r.Cancelled():
		why = infer.Canceled
		if err.Code == backend.Cancelled {
			x.r.Fail(scheduler.ErrCancelled(), why)
			return
		}
	case errors.Is(cause, errStopping):
		x.r.Fail(scheduler.ErrStopping(x.r), why)
		return
	}
	x.r.Fail(&backend.Error{Code: err.Code, Message: "in ensemble '" + x.s.g.name + "', " + err.Message, RetryAfter: err.RetryAfter}, why)
}

// count counts the request as one execution.
func (x *run) count() {
	x.s.o.Stats.Batch(x.r.Size(), x.sum[1], x.sum[2], x.sum[3])
}

// parameters are those of a response: the sequence it belongs to.
func (x *run) parameters(q sequence) []backend.Parameter {
	if !q.set {
		q.id, q.flags = x.r.Correlation, x.r.Flags
	}
	id := backend.Uint("sequence_id", q.id.Number)
	switch {
	case q.id.Text != "":
		id = backend.String("sequence_id", q.id.Text)
	case int64(q.id.Number) >= 0:
		id = backend.Int("sequence_id", int64(q.id.Number))
	}
	return []backend.Parameter{
		id, backend.Bool("sequence_start", q.flags&backend.SequenceStart != 0), backend.Bool("sequence_end", q.flags&backend.SequenceEnd != 0),
	}
}
