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
	calls      map[*call]struct{} // executions that have not returned
	delivering int                // of them, responses on their way to clients
	idle       chan struct{}      // made by the watch, closed with the last call
	ended      bool               // interrupted
	gone       bool               // abandoned
}

// call is one execution that may be abandoned.
type call struct {
	l    *life
	e    *execution
	err  error
	done chan struct{} // closed when the backend has returned
	// given is closed when the call is abandoned.
	given     chan struct{}
	abandoned bool // under l.mu
}

func (p *Pool) newLife(in backend.Instance, number uint64) *life {
	l := &life{instance: in, number: number}
	l.ctx, l.cancel = context.WithCancelCause(p.ctx)
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
		err = p.call(l, &e.batch)
		l.end()
		return err, false
	}
	c := &call{l: l, e: e, done: make(chan struct{}), given: make(chan struct{})}
	if !l.enter(c) {
		return backend.ErrNotBegun, false // it is being replaced
	}
	go func() { // ends with the backend's Execute; its requests hold the version until then
		c.err = p.call(l, &e.batch)
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

// enter notes a call and has its responses pass by a gate. It fails for a life
// that has ended.
func (l *life) enter(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	if l.calls == nil {
		l.calls = map[*call]struct{}{}
	}
	l.calls[c] = struct{}{}
	l.begin(backend.Now())
	for _, r := range c.e.requests {
		next := r.Responder
		if g, ok := next.(*gate); ok {
			next = g.next // of an execution before, which has ended
		}
		r.Responder = &gate{c: c, next: next}
	}
	return true
}

// leave notes that the backend has returned. The one that was waited for hands
// over to its waiter; an abandoned one is cleaned up here.
func (p *Pool) leave(c *call) {
	l := c.l
	l.mu.Lock()
	delete(l.calls, c)
	l.end()
	last := len(l.calls) == 0
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
		if err := Guard(p.o.Logger, "close instance "+p.name(l), l.instance.Close); err != nil && p.o.Logger != nil {
			p.o.Logger.Warn("closing an instance that was replaced", "instance", p.name(l), "error", err)
		}
	}
	if p.o.Logger != nil {
		p.o.Logger.Info("an execution that was given up has come back", "instance", p.name(l))
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

func (p *Pool) name(l *life) string {
	for i := range p.slots {
		if p.slots[i].life.Load() == l {
			return p.o.Instances[i].Name
		}
	}
	return p.o.Instances[0].Name // replaced meanwhile
}

func (p *Pool) errHung(l *life) *backend.Error {
	return backend.Errorf(backend.Internal, "instance '%s' has made no progress for %v (--instance-hang-timeout) and was interrupted", p.name(l), p.o.HangTimeout)
}

// gate is the Responder of a request whose execution may be abandoned. What the
// backend gives after that is dropped, and the time of a response on its way to a
// slow client is not the instance's.
type gate struct {
	c    *call
	next backend.Responder
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
	_, inside := l.calls[g.c] // the execution may have returned, if the model is decoupled
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

// Answered reports whether a scheduler holds the answer back.
func (g *gate) Answered() bool {
	a, ok := g.next.(answerer)
	return ok && a.Answered()
}

// Reschedule implements backend.Rescheduler.
func (g *gate) Reschedule() error {
	g.c.l.mu.Lock()
	abandoned := g.c.abandoned
	g.c.l.mu.Unlock()
	if abandoned {
		return infer.ErrEnded
	}
	inner := backend.Request{Responder: g.next}
	return inner.Reschedule()
}

// Settle implements backend.Settler.
func (g *gate) Settle(again bool) {
	inner := backend.Request{Responder: g.next}
	inner.Settle(again)
}

// own returns the Responder behind the gate, if there is one.
func own(r backend.Responder) backend.Responder {
	if g, ok := r.(*gate); ok {
		return g.next
	}
	return r
}
