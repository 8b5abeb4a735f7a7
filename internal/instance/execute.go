package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/stats"
)

// execution is the memory of one batch while it runs.
type execution struct {
	batch    backend.Batch
	requests []*infer.Request
	borrowed int // how many of batch.Inputs, from the first on, are the request's own

	pool    *Pool
	slot    *slot
	waits   bool // it was sent ahead and not begun yet
	isOpen  bool // it is one of slot.open
	begunAt int64

	stats *stats.Version // nil where it does not count
	life  *life
	sent  int64            // when it was given to the backend
	told  func(begun bool) // called at the end of one that was started
	ended func(error)      // see backend.Batch.Ended; made once
}

func (p *Pool) execution() *execution {
	if e, ok := p.executions.Get().(*execution); ok {
		return e
	}
	e := &execution{requests: make([]*infer.Request, 0, 4), batch: backend.Batch{Requests: make([]*backend.Request, 0, 4)}}
	e.ended = e.end
	return e
}

// Execute is hop 5: it comes from scheduler.Scheduler.Enqueue (hop 4) and calls
// backend.Instance.Execute (hop 6). It answers every request of the batch,
// except that a decoupled model may answer later.
func (p *Pool) Execute(instance int, requests []*infer.Request) (begun bool) {
	e := p.execution()
	e.requests = append(e.requests, requests...)
	return p.run(p.at(instance), e, p.o.Stats)
}

// ExecuteOne is Execute for a batch of one request.
func (p *Pool) ExecuteOne(instance int, r *infer.Request) (begun bool) {
	e := p.execution()
	e.requests = append(e.requests, r)
	return p.run(p.at(instance), e, p.o.Stats)
}

// Starts reports whether Start may be used: the backend does not wait for what it
// executes.
func (p *Pool) Starts() bool { return p.o.Starts && p.o.HangTimeout <= 0 }

// Start is Execute without the wait, for a pool that Starts, and answers nothing: whoever
// calls it may hold locks that an answer needs. ended is called once with what
// Execute would have returned, by another goroutine, which holds no lock: perhaps before
// Start has returned.
func (p *Pool) Start(instance int, requests []*infer.Request, ended func(begun bool)) {
	e := p.execution()
	e.requests = append(e.requests, requests...)
	e.told = ended
	if err := p.send(p.at(instance), e, p.o.Stats); err != backend.ErrStarted { //nolint:errorlint // it is returned as it is
		go func() { ended(p.over(e, err)) }() // it ends with the requests, whose pins hold the version
	}
}

// end is the end of an execution that was started.
func (e *execution) end(err error) {
	told := e.told
	e.life.end()
	told(e.pool.over(e, err))
}

// Insist is Execute for a batch that cannot go to another instance: it waits
// for this one, as long as anybody waits for the batch.
func (p *Pool) Insist(instance int, requests []*infer.Request) {
	for !p.Execute(instance, requests) {
		for range requests {
			p.o.Stats.Enqueued()
		}
		gone, stop := allGone(requests)
		p.awaitUp(instance, p.ctx.Done(), gone)
		stop()
		for range requests {
			p.o.Stats.Dequeued()
		}
		var err error
		switch {
		case p.ctx.Err() != nil:
			err = backend.Errorf(backend.Unavailable, "the instance was closed before it began the request")
		case !slices.ContainsFunc(requests, func(r *infer.Request) bool { return !r.Cancelled() }):
			err = &backend.Error{Code: backend.Cancelled}
		default:
			continue
		}
		p.refuse(requests, err)
		return
	}
}

// allGone returns what is closed when nobody waits for any of the requests; stop
// ends the watch.
func allGone(requests []*infer.Request) (gone <-chan struct{}, stop func()) {
	closed := make(chan struct{})
	var left atomic.Int32
	left.Store(int32(len(requests)))
	var stops []func() bool
	for _, r := range requests {
		if r.Ctx == nil {
			continue // waited for until the end
		}
		stops = append(stops, context.AfterFunc(r.Ctx, func() {
			if left.Add(-1) == 0 {
				close(closed)
			}
		}))
	}
	return closed, func() {
		for _, f := range stops {
			f()
		}
	}
}

// refuse answers requests that no instance has begun.
func (p *Pool) refuse(requests []*infer.Request, err error) {
	for _, r := range requests {
		if !r.Ended() {
			_ = own(r.Responder).Respond(&backend.Response{Err: backend.AsError(err)}, true)
		}
	}
}

// Taken implements backend.Progress.
func (e *execution) Taken() {
	e.taken()
	if placed := e.requests[0].Placed; placed != nil {
		placed()
	}
}

func (e *execution) taken() {
	for _, r := range e.requests {
		if r.Taken != nil {
			r.Taken()
		}
	}
}

// Waits implements backend.Progress.
func (e *execution) Waits() {
	e.waits = true
	for range e.requests {
		e.pool.o.Stats.Enqueued()
	}
}

// Begins implements backend.Progress.
func (e *execution) Begins() {
	if !e.waits {
		return
	}
	e.waits = false
	e.begunAt = backend.Now()
	for _, r := range e.requests {
		e.pool.o.Stats.Dequeued()
		r.Times.ComputeStart = e.begunAt
	}
}

// Recalled implements backend.Progress. A batch that is sent ahead now could overtake this
// one, which may come back only after the one before it has ended.
func (e *execution) Recalled() { e.slot.took.Store(heldUp) }

// Frees implements backend.Progress.
func (e *execution) Frees() {
	if !e.isOpen {
		e.isOpen = true
		e.slot.open.Add(1)
		e.pool.Admit()
	}
}

// giveBack leaves the requests as they were before.
func (p *Pool) giveBack(e *execution) {
	if e.waits {
		e.waits = false
		for range e.requests {
			p.o.Stats.Dequeued()
		}
	}
	for i := e.borrowed; i < len(e.batch.Inputs) && p.o.Capabilities.Gather; i++ {
		e.batch.Inputs[i].Release()
	}
	for _, r := range e.requests {
		ungate(r)
		r.Batch, r.Times.ComputeStart = nil, 0
		r.Drop()
	}
	p.recycle(e)
}

func (p *Pool) run(s *slot, e *execution, v *stats.Version) (begun bool) {
	return p.over(e, p.send(s, e, v))
}

// errAbandoned says that an execution does not come back. Its requests have been answered.
var errAbandoned = errors.New("abandoned")

// send gives a batch to the backend and returns its error. Two of these are for the
// caller to look at: errAbandoned, and backend.ErrStarted of a batch that has been
// started. With either, e is not the caller's any more.
func (p *Pool) send(s *slot, e *execution, v *stats.Version) error {
	b := &e.batch
	b.Scattered = p.o.Scattered
	e.pool, e.slot, e.stats = p, s, v
	b.Progress = e
	now := backend.Now()
	for _, r := range e.requests {
		r.Hold()
		r.Batch = b
		r.Times.ComputeStart = now
		if r.Times.Queue == 0 {
			r.Times.Queue = now
		}
		b.Requests = append(b.Requests, &r.Request)
		b.Size += r.Size()
	}
	if p.Depth() > 1 || s.open.Load() == 0 {
		e.taken() // else several may be on their way to it, and its worker says when they are there
	}
	e.life, e.sent = s.life.Load(), now
	if err := p.gather(e); err != nil {
		return err
	}
	err, abandoned := p.execute(e.life, e)
	if !abandoned {
		return err
	}
	p.finish(e, err)
	for _, r := range e.requests {
		if r.OnAbandoned != nil {
			r.OnAbandoned(r)
		}
	}
	return errAbandoned
}

// over ends an execution, which has come back with err, and reports whether the instance
// had begun it.
func (p *Pool) over(e *execution, err error) (begun bool) {
	if err == errAbandoned { //nolint:errorlint // it is returned as it is
		return true // what is left to do is done when the backend comes back, if it does
	}
	b, s, v, now := &e.batch, e.slot, e.stats, e.sent
	if e.isOpen {
		s.open.Add(-1)
	}
	if errors.Is(err, backend.ErrNotBegun) {
		// Whatever it is busy with, nothing is sent behind it for a while.
		s.took.Store(heldUp)
		p.giveBack(e)
		return false
	}
	e.Begins() // what has ended had begun, whether anybody saw it or not
	if e.begunAt != 0 {
		now = e.begunAt
	}
	reuse := p.finish(e, err)
	if v != nil && (err == nil || b.Ran) {
		var end int64
		if len(e.requests) == 1 && reuse {
			end = e.requests[0].Times.End // saves a look at the clock
		} else {
			end = backend.Now()
		}
		input, output := b.InputEnd, b.OutputStart
		if input == 0 {
			input = now
		}
		if output == 0 || p.o.Decoupled { // the model answers while it runs
			output = end
		}
		if input < now { // sent ahead
			input = now
		}
		if !countReports(v, b) {
			v.Batch(b.Size, max(0, input-now), max(0, output-input), max(0, end-output))
		}
		s.executed(end - now)
	}
	p.letGo(e, reuse)
	return true
}

// countReports counts what the model says of its executions, if it says something of them.
func countReports(v *stats.Version, b *backend.Batch) (some bool) {
	for i := range b.Reports {
		r := &b.Reports[i]
		input, infer, output := r.Phases()
		v.Batch(r.Size, input, infer, output)
	}
	return len(b.Reports) > 0
}

// invoke runs the backend; a panic fails the batch, not the server.
func (p *Pool) invoke(l *life, b *backend.Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if p.o.Logger != nil {
				p.o.Logger.Error("backend panicked", slog.String("panic", fmt.Sprint(v)), logging.Block("stack", string(debug.Stack())))
			}
			err = backend.Errorf(backend.Internal, "backend panicked: %v", v)
		}
	}()
	return l.instance.Execute(l.ctx, b)
}

// finish answers what the backend left unanswered and says whether the
// execution's memory may be used again.
func (p *Pool) finish(e *execution, err error) (reuse bool) {
	if err == nil && p.o.Decoupled {
		return false
	}
	reuse = !p.o.Decoupled
	for _, r := range e.requests {
		// Where another goroutine is still delivering the answer, it still reads
		// the batch.
		reuse = reuse && r.LastHold()
		if r.Ended() {
			continue
		}
		if r.Held != nil && r.Held.Answered() {
			continue // held until it is its turn
		}
		cause := err
		if cause == nil {
			cause = backend.Errorf(backend.Internal, "expected a single response, got %d", r.Responses())
		}
		// Through the Responder, which may be a scheduler's: it refuses when it
		// already has the final response.
		_ = own(r.Responder).Respond(&backend.Response{Err: backend.AsError(cause)}, true)
	}
	return reuse
}

// letGo ends the hold on the requests and the gathered inputs.
func (p *Pool) letGo(e *execution, reuse bool) {
	b := &e.batch
	if p.o.Capabilities.Gather {
		for i := e.borrowed; i < len(b.Inputs); i++ {
			if p.o.Decoupled && b.Inputs[i].Buffer != nil {
				// Needed until the last of the requests has been answered.
				for _, r := range e.requests {
					r.Keep(b.Inputs[i].Buffer.Retain())
				}
				b.Inputs[i].Buffer.Release()
				continue
			}
			b.Inputs[i].Release()
		}
	}
	for _, r := range e.requests {
		if reuse {
			r.Batch = nil
		}
		if p.o.Decoupled && !r.Ended() {
			r.Keep(e.slot.stay.Retain()) // what is left to answer, the instance is to answer
		}
		r.Drop()
	}
	if !reuse {
		return
	}
	p.recycle(e)
}

func (p *Pool) recycle(e *execution) {
	clear(e.requests)
	clear(e.batch.Requests)
	*e = execution{requests: e.requests[:0], batch: backend.Batch{Requests: e.batch.Requests[:0]}, ended: e.ended}
	p.executions.Put(e)
}
