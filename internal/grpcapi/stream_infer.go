package grpcapi

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/protowire"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/tracing"
)

// streamInference is one request of a stream, and the sink of its responses.
type streamInference struct {
	x       *stream
	meaning kserve.ResponseOptions
	served  *model.Model
	// id, model and asked are as the client sent them; version is the one that
	// serves.
	id, model, asked, version string
	// ordinary says that there is one response, which leaves in request order;
	// begun that the request reached its model.
	ordinary, begun bool
	trace           *tracing.Trace // nil for a request that is not sampled

	// Of an ordinary request, guarded by the stream's mu.
	answer         *backend.Response
	room           ledger.Room // of answer on the ledger
	answered, done bool
}

// unknown answers a request for a model that does not exist. Only the beginning
// of the request was read. Its place in flight is taken already.
func (x *stream) unknown(why *notKnown) {
	c := &streamInference{x: x, model: why.model, ordinary: true}
	x.mu.Lock()
	x.open++
	x.mu.Unlock()
	c.refuse(why.bad)
}

// request is hop 1 for one message: it leads to engine.Infer (hop 2). The
// request's place in flight is taken already.
func (x *stream) request(q *protowire.Request) {
	received := backend.Now()
	c := &streamInference{x: x, id: q.ID, model: q.ModelName, asked: q.ModelVersion, ordinary: true}
	x.mu.Lock()
	x.open++
	x.mu.Unlock()
	if x.s.closing.Load() {
		c.refuse(errShutdown())
		return
	}
	ask, bad := x.s.ask(x.ctx, q.ModelName, q.ModelVersion)
	if bad != nil {
		c.refuse(bad)
		return
	}
	pin, err := x.s.o.Engine.ResolveFor(x.ctx, x.caller, x.by.Conn, q.ModelName, ask, q.InputBytes()+q.TextBytes())
	if err != nil {
		c.refuse(backend.AsError(err))
		return
	}
	r, m := pin.NewRequest(c), pin.Model
	cfg := m.Config()
	c.served, c.version, c.ordinary = m, protowire.Version(m.Version()), !cfg.Decoupled
	r.Times.Receive = received
	r.Ctx = x.ctx
	bad = protowire.Decode(q, &r.Request, &c.meaning, kserve.Target{Config: cfg, Allocator: m.Allocator(), Memory: x.s.usable(x.ctx)})
	if bad == nil && x.s.forward != nil {
		bad = x.s.forward.apply(x.ctx, r)
	}
	if bad == nil {
		if err := c.meaning.ReadRegions(r, m.Allocator()); err != nil {
			bad = backend.AsError(err)
		}
	}
	if bad != nil {
		r.Discard()
		c.refuse(bad)
		return
	}
	m = pin.Continue(r).Model
	cfg = m.Config()
	c.served, c.version = m, protowire.Version(m.Version())
	if c.ordinary {
		x.mu.Lock()
		x.ordered.push(c)
		x.mu.Unlock()
	}
	r.Times.Start = backend.Now()
	c.trace = x.s.startTrace(x.ctx, r)
	x.queues.run(cfg, m, r, c)
}

// infer hands the request to the engine.
func (c *streamInference) infer(r *infer.Request) {
	if err := c.x.s.o.Engine.Infer(r); err != nil {
		c.answerError(backend.AsError(err))
	}
}

// refuse answers a request that has not come as far as a model.
func (c *streamInference) refuse(err *backend.Error) {
	if c.ordinary {
		c.x.mu.Lock()
		c.x.ordered.push(c)
		c.x.mu.Unlock()
	}
	c.answerError(err)
}

func (c *streamInference) answerError(err *backend.Error) {
	c.deliver(&backend.Response{Err: err}, true)
}

// Deliver takes a response of the model.
func (c *streamInference) Deliver(r *infer.Request, resp *backend.Response, final bool) {
	if !c.begun { // the writer reads it once there is an answer
		c.begun = true
	}
	if final && c.x.s.verbose(c.x.ctx) {
		fail, _ := r.Failure()
		c.x.s.access(c.x.ctx, r, fail)
	}
	c.deliver(resp, final)
}

func (c *streamInference) deliver(resp *backend.Response, final bool) {
	x := c.x
	if c.ordinary {
		c.deliverOrdered(resp, final)
		return
	}
	if resp != nil {
		select {
		case x.room <- struct{}{}:
		case <-x.ctx.Done():
			resp.Release() // nothing is sent any more
			if !final {
				return
			}
			resp = nil // the writer may still be at an earlier one: it, or close, ends the request
		}
	}
	resp, room := x.count(c, resp, final)
	x.mu.Lock()
	dropped := x.closed
	if !dropped {
		x.queue = append(x.queue, outgoing{r: c, resp: resp, room: room, final: final, last: final})
	}
	x.mu.Unlock()
	if dropped {
		x.uncount(room)
		resp.Release()
		if final {
			c.end()
		}
		return
	}
	x.notify()
}

// deliverOrdered keeps the answer of an ordinary request until it is its turn:
// the first one, as Triton does on a stream, though it answers one call alone with
// an error when there are several. It never waits: each request in flight has a
// place for its answer.
func (c *streamInference) deliverOrdered(resp *backend.Response, final bool) {
	x := c.x
	var room ledger.Room
	if resp != nil || final {
		resp, room = x.count(c, resp, true)
	}
	x.mu.Lock()
	var drop *backend.Response
	if resp != nil {
		if !c.answered && !x.closed {
			c.answer, c.room, room = resp, room, ledger.Room{}
		} else {
			drop = resp
		}
		c.answered = true
	}
	moved, over := false, false
	if final {
		c.done, over = true, x.closed
		if !c.answered && !x.closed {
			c.room, room = room, ledger.Room{}
			c.answer = &backend.Response{Err: backend.Errorf(backend.Internal, "expected a single response, got 0")}
		}
		for f := x.ordered.front(); f != nil && f.done && !x.closed; f = x.ordered.front() {
			x.ordered.pop()
			x.queue = append(x.queue, outgoing{r: f, resp: f.answer, room: f.room, final: true, last: true})
			f.answer, f.room, moved = nil, ledger.Room{}, true
		}
	}
	x.mu.Unlock()
	x.uncount(room)
	drop.Release()
	if over {
		c.end()
	}
	if moved {
		x.notify()
	}
}

// perCall is what a request holds until its last answer has left, about.
const perCall = 512

// holds is that, with the texts that its answers repeat.
func (c *streamInference) holds() int64 {
	return perCall + int64(len(c.id)+len(c.model)+len(c.asked))
}

// end lets go of the client's shared memory and ends the trace, once nothing of
// the request is left to send.
func (c *streamInference) end() {
	c.meaning.Reset()
	c.trace.Done()
}

func (c *streamInference) apply(resp *backend.Response) *backend.Error {
	return kserve.ApplyResponseOptions(&c.meaning, c.served.Config(), c.served, resp)
}
