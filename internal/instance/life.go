package instance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// life is one instance from its making to its end, or to its interruption: an
// instance that heeds that begins another one.
type life struct {
	slot     *slot
	instance backend.Instance
	number   uint64 // from 1 on
	ctx      context.Context
	cancel   context.CancelCauseFunc

	// running counts executions, since is when the last of them began or ended while
	// others ran: the time from which on nothing has happened.
	running atomic.Int32
	since   atomic.Int64

	// Below: used with a HangTimeout only.
	mu         sync.Mutex
	attempts   map[*attempt]struct{} // executions that have not returned
	delivering int                   // of them, responses on their way to clients
	idle       chan struct{}         // made by the watch, closed with the last attempt
	ended      bool                  // interrupted
	gone       bool                  // abandoned
}

// attempt is one execution that may be abandoned.
type attempt struct {
	l    *life
	e    *execution
	err  error
	done chan struct{} // closed when the backend has returned
	// given is closed when the attempt is abandoned.
	given     chan struct{}
	abandoned bool // under l.mu
}

func newLife(s *slot, in backend.Instance, number uint64) *life {
	l := &life{slot: s, instance: in, number: number}
	l.ctx, l.cancel = context.WithCancelCause(s.ctx)
	return l
}

func (l *life) abandoned() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// begin and end keep the time without progress; two atomic operations each.
func (l *life) begin(now int64) {
	if l.running.Add(1) == 1 {
		l.since.Store(now)
	}
}

func (l *life) end() {
	if l.running.Add(-1) > 0 {
		l.since.Store(backend.Now())
	}
}

// execute runs the batch on the instance. abandoned says that the backend has
// not come back from its interruption: the requests are to be answered with err,
// and what they hold stays until it does.
func (p *Pool) execute(l *life, e *execution) (err error, abandoned bool) {
	if p.o.HangTimeout <= 0 {
		l.begin(e.requests[0].Times.ComputeStart)
		if e.told != nil {
			e.batch.Ended = e.ended
		}
		if err = p.invoke(l, &e.batch); err != backend.ErrStarted { //nolint:errorlint // it is returned as it is
			l.end()
		}
		return err, false
	}
	c := &attempt{l: l, e: e, done: make(chan struct{}), given: make(chan struct{})}
	if !l.enter(c) {
		return backend.ErrNotBegun, false // it is being replaced
	}
	go func() { // ends with the backend's Execute; its requests hold the version until then
		c.err = p.invoke(l, &e.batch)
		p.leave(c)
	}()
	select {
	case <-c.done:
	case <-c.given:
		return p.errHung(l), true
	}
	if c.err != nil && !errors.Is(c.err, backend.ErrNotBegun) && l.interrupted() {
		return p.errHung(l), false
	}
	if b := &e.batch; b.Life == 0 && l.number > 1 {
		b.Life = l.number
	}
	return c.err, false
}

// enter notes an attempt and has its responses pass by a gate. It fails for a life
// that has ended.
func (l *life) enter(c *attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	if l.attempts == nil {
		l.attempts = map[*attempt]struct{}{}
	}
	l.attempts[c] = struct{}{}
	l.begin(backend.Now())
	for _, r := range c.e.requests {
		ungate(r) // of an execution before, which has ended
		g := &gate{c: c, next: r.Responder, iterations: r.Iterations}
		if r.Responder = g; g.iterations != nil {
			r.Iterations = g
		}
	}
	return true
}

// leave notes that the backend has returned. The one that was waited for hands
// over to its waiter; an abandoned one is cleaned up here.
func (p *Pool) leave(c *attempt) {
	l := c.l
	l.mu.Lock()
	delete(l.attempts, c)
	l.end()
	last := len(l.attempts) == 0
	if last && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	abandoned, closing := c.abandoned, last && l.gone
	l.mu.Unlock()
	if !abandoned {
		close(c.done)
		return
	}
	if closing {
		// Before its requests let go: they hold the version, whose model is closed after
		// its instances.
		if err := Guard(p.o.Logger, "close instance "+l.slot.cfg.Name, l.instance.Close); err != nil && p.o.Logger != nil {
			p.o.Logger.Warn("closing an instance that was replaced", "instance", l.slot.cfg.Name, "error", err)
		}
	}
	if p.o.Logger != nil {
		p.o.Logger.Info("an execution that was given up has come back", "instance", l.slot.cfg.Name)
	}
	c.e.Begins() // else it would wait forever
	if c.e.isOpen {
		c.e.slot.open.Add(-1)
	}
	p.letGo(c.e, false)
}

func (l *life) interrupted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

func (p *Pool) errHung(l *life) *backend.Error {
	return backend.Errorf(backend.Internal, "instance '%s' has made no progress for %v ("+p.o.Words.Name("instance-hang-timeout")+
		") and was interrupted", l.slot.cfg.Name, p.o.HangTimeout)
}

// gate is the Responder of a request whose execution may be abandoned. What the
// backend gives after that is dropped, and the time of a response on its way to a
// slow client is not the instance's.
type gate struct {
	c          *attempt
	next       backend.Responder
	iterations backend.Iterations // nil for a request that does not come back
}

// Respond implements backend.Responder.
func (g *gate) Respond(resp *backend.Response, final bool) error {
	l := g.c.l
	l.mu.Lock()
	if g.c.abandoned {
		l.mu.Unlock()
		resp.Release()
		return infer.ErrEnded
	}
	_, inside := l.attempts[g.c] // the execution may have returned, if the model is decoupled
	if inside {
		l.delivering++
	}
	l.mu.Unlock()
	err := g.next.Respond(resp, final)
	if inside {
		l.mu.Lock()
		l.delivering--
		l.since.Store(backend.Now())
		l.mu.Unlock()
	}
	return err
}

// Cancelled implements backend.Responder.
func (g *gate) Cancelled() bool {
	return g.c.l.ctx.Err() != nil && g.c.l.interrupted() || g.next.Cancelled()
}

// Reschedule implements backend.Iterations.
func (g *gate) Reschedule() error {
	g.c.l.mu.Lock()
	abandoned := g.c.abandoned
	g.c.l.mu.Unlock()
	if abandoned {
		return infer.ErrEnded
	}
	return g.iterations.Reschedule()
}

// Settle implements backend.Iterations.
func (g *gate) Settle(again bool) { g.iterations.Settle(again) }

// ungate takes the gate before a request away, if there is one.
func ungate(r *infer.Request) {
	if g, ok := r.Responder.(*gate); ok {
		r.Responder, r.Iterations = g.next, g.iterations
	}
}

// own returns the Responder behind the gate, if there is one.
func own(r backend.Responder) backend.Responder {
	if g, ok := r.(*gate); ok {
		return g.next
	}
	return r
}
