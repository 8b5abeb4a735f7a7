package guest

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// calls are what the worker has asked of the server and has no answer to. The server
// bounds how many there are.
type calls struct {
	mu     sync.Mutex
	last   uint64
	asked  map[uint64]chan<- reply
	infers map[uint64]*Call
	ended  bool
}

type reply struct {
	body json.RawMessage
	err  error
}

func (c *calls) init() { c.asked, c.infers = map[uint64]chan<- reply{}, map[uint64]*Call{} }

// Ask sends METRIC or CONTROL and waits for what READY says.
func (g *Guest) Ask(kind wire.Kind, body any) (json.RawMessage, error) {
	answer := make(chan reply, 1)
	c := &g.calls
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, errServerGone
	}
	c.last++
	id := c.last
	c.asked[id] = answer
	c.mu.Unlock()
	if err := g.json(kind, 0, id, body); err != nil {
		c.mu.Lock()
		delete(c.asked, id)
		c.mu.Unlock()
		return nil, err
	}
	g.readOn()
	r := <-answer
	return r.body, r.err
}

// Activity notes on the timeline of a traced request that something happened at a moment
// of the system's steady clock.
func (g *Guest) Activity(at uint64, trace, name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out = wire.AppendActivity(g.out, at, trace, name)
	return g.sendLocked(nil)
}

// Responded says what the instance of that number did for a response.
func (g *Guest) Responded(instance uint32, r wire.Report) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := [1]wire.Report{r}
	g.out = wire.AppendTimes(g.out, instance, 0, one[:])
	return g.sendLocked(nil)
}

// answered takes READY or FAILED.
func (g *Guest) answered(h wire.Header, body []byte) error {
	if h.ID == 0 && h.Kind == wire.KindFailed {
		g.memory.failed(string(body))
		return nil
	}
	c := &g.calls
	c.mu.Lock()
	to := c.asked[h.ID]
	delete(c.asked, h.ID)
	c.mu.Unlock()
	if to == nil {
		return &wire.ProtocolError{Kind: h.Kind, Field: "id", Offset: 16, Detail: fmt.Sprintf("call %d was not made", h.ID)}
	}
	r := reply{body: append(json.RawMessage(nil), body...)}
	if h.Kind == wire.KindFailed {
		var failed wire.FailedBody
		if err := json.Unmarshal(body, &failed); err != nil {
			return &wire.ProtocolError{Kind: h.Kind, Field: "body", Detail: err.Error()}
		}
		code := backend.Internal
		if failed.Code > 0 && backend.Code(failed.Code) <= backend.Cancelled {
			code = backend.Code(failed.Code)
		}
		r = reply{err: &backend.Error{Code: code, Message: failed.Message}}
	}
	to <- r
	return nil
}

// end answers what nobody will answer any more.
func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for id, to := range c.asked {
		delete(c.asked, id)
		to <- reply{err: errServerGone}
	}
	for id, call := range c.infers {
		delete(c.infers, id)
		call.put(delivery{&backend.Response{Err: backend.AsError(errServerGone)}, true})
	}
}

// Call is an inference request of the worker to a model of the server.
type Call struct {
	guest   *Guest
	id      uint64
	many    bool
	respond func(resp *backend.Response, final bool)

	mu      sync.Mutex
	version int64      // that serves it; 0 while that is not known
	waiting []delivery // bounded by the window, or by what one request has
	running bool
}

type delivery struct {
	resp  *backend.Response
	final bool
}

// creditShare is how much a model takes before the server is told.
const creditShare = 64

// Infer sends a request; the inputs are copied before it returns. With many it may get
// any number of responses, else one. respond is called by one goroutine at a time, never
// by the one that calls Infer, with final exactly once; it owns the response, and the
// server waits for it. An error means that nothing was sent.
func (g *Guest) Infer(instance uint32, r *backend.Request, many bool, respond func(*backend.Response, bool)) (*Call, error) {
	at, err := g.placed(r.Inputs)
	if err != nil {
		return nil, err
	}
	call := &Call{guest: g, many: many, respond: respond}
	c := &g.calls
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		g.takeBack(at)
		return nil, errServerGone
	}
	c.last++
	call.id = c.last
	c.infers[call.id] = call
	c.mu.Unlock()
	decoupled := byte(0)
	if many {
		decoupled = wire.InferWindow
	}
	flags := byte(0)
	if r.ModelVersion <= 0 {
		flags = wire.InferPinned // the server knows which, and that may be another one each time
	}
	g.mu.Lock()
	g.out, err = g.enc.AppendInfer(g.out, instance, call.id, decoupled, flags, r, r.Requested, at)
	if err != nil {
		g.takeBack(at)
	}
	err = g.sendLocked(err)
	g.mu.Unlock()
	if err != nil {
		c.mu.Lock()
		delete(c.infers, call.id)
		c.mu.Unlock()
		return nil, err
	}
	g.readOn()
	return call, nil
}

// Version is the version of the model that serves a call which has left it to the server:
// known from the first response on, and 0 where the call was refused before.
func (c *Call) Version() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// pinned takes PINNED.
func (g *Guest) pinned(id uint64, body []byte) error {
	version, err := wire.DecodePinned(body)
	if err != nil {
		return err
	}
	c := &g.calls
	c.mu.Lock()
	call := c.infers[id]
	c.mu.Unlock()
	if call == nil {
		return &wire.ProtocolError{Kind: wire.KindPinned, Field: "id", Offset: 16, Detail: fmt.Sprintf("call %d was not made", id)}
	}
	call.mu.Lock()
	call.version = version
	call.mu.Unlock()
	return nil
}

// Cancel tells the server that nobody waits for the answer any more.
func (c *Call) Cancel() {
	g := c.guest
	g.mu.Lock()
	defer g.mu.Unlock()
	var err error
	g.out, err = wire.AppendFrame(g.out, wire.KindCancel, 0, c.id, nil)
	_ = g.sendLocked(err) // where the channel is broken the reader says so
}

// places are where inputs of a call lie.
type places []wire.Place

// Put implements wire.Placer.
func (p places) Put(_ []tensor.Tensor, i int) wire.Place { return p[i] }

// placed copies large inputs to where the server reads them.
func (g *Guest) placed(inputs []tensor.Tensor) (places, error) {
	all := make(places, len(inputs))
	for i := range inputs {
		all[i] = wire.Place{Segment: wire.InlineSegment}
	}
	for i := range inputs {
		data := inputs[i].Data
		if len(data) <= segment.DefaultInlineLimit {
			continue
		}
		at, to, err := g.memory.allocate(len(data))
		if err != nil {
			g.takeBack(all)
			return nil, backend.Errorf(backend.Unavailable, "input '%s': %v", inputs[i].Name, err)
		}
		copy(to, data)
		all[i] = at
	}
	return all, nil
}

// takeBack frees what was not sent.
func (g *Guest) takeBack(all places) {
	for _, at := range all {
		if at.Segment != wire.InlineSegment {
			g.memory.release(wire.Block{Segment: at.Segment, Offset: at.Offset})
		}
	}
}

// inferred takes INFER_RESPONSES.
func (g *Guest) inferred(h wire.Header, body []byte, in *wire.Chunk) error {
	list, _, err := wire.DecodeResponses(h.Kind, body)
	if err != nil {
		return err
	}
	c := &g.calls
	for i := range list {
		r := &list[i]
		final := r.Flags&wire.ResponseFinal != 0
		c.mu.Lock()
		call := c.infers[r.Handle]
		if final {
			delete(c.infers, r.Handle)
		}
		c.mu.Unlock()
		if call == nil {
			return &wire.ProtocolError{Kind: h.Kind, Field: "handle", Offset: 8, Detail: fmt.Sprintf("call %d was not made", r.Handle)}
		}
		d := delivery{final: final}
		if r.Flags&wire.ResponseNone == 0 {
			if d.resp, err = g.response(r, body, in); err != nil {
				return err
			}
		}
		call.put(d)
	}
	return nil
}

// response makes one of its block. Outputs in a frame keep that, those in memory of the
// server are given back when the response is released.
func (g *Guest) response(r *wire.DecodedResponse, body []byte, in *wire.Chunk) (*backend.Response, error) {
	resp := &backend.Response{}
	var err error
	if resp.Parameters, err = wire.ParseParameters(r.Parameters); err != nil {
		return nil, fmt.Errorf("worker protocol: parameters of a response: %w", err)
	}
	if r.Code != wire.NoError {
		resp.Err = &backend.Error{Code: backend.Code(r.Code), Message: string(r.Message)}
		return resp, nil
	}
	for k := range r.Entries {
		e := &r.Entries[k]
		t, err := g.view(e, nil, body)
		if err != nil {
			resp.Release()
			return nil, err
		}
		if e.Inline() {
			t.Buffer = in.Retain()
		} else {
			t.Buffer = tensor.NewBuffer(t.Data, lent{g, wire.Block{Segment: e.Segment, Offset: e.Offset}})
		}
		resp.Outputs = append(resp.Outputs, t)
	}
	return resp, nil
}

// lent is a block of the server's that the worker reads.
type lent struct {
	guest *Guest
	block wire.Block
}

// ReleaseBuffer implements tensor.Releaser.
func (l lent) ReleaseBuffer(*tensor.Buffer) { _ = l.guest.giveBack([]wire.Block{l.block}) } // broken: the reader says so

// put has the response delivered, after those before it.
func (c *Call) put(d delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, d)
	if !c.running {
		c.running = true
		go c.deliver()
	}
}

// deliver hands responses over until there are no more for now.
func (c *Call) deliver() {
	taken := 0
	for {
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.running = false
			c.mu.Unlock()
			c.credit(taken)
			return
		}
		d := c.waiting[0]
		c.waiting[0] = delivery{}
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
		taken += d.cost()
		c.respond(d.resp, d.final)
		if d.final {
			return
		}
		if taken >= creditShare {
			c.credit(taken)
			taken = 0
		}
	}
}

// cost is what the server has counted for a response.
func (d delivery) cost() int {
	if d.resp == nil {
		return 0
	}
	size := 0
	for i := range d.resp.Outputs {
		size += d.resp.Outputs[i].Size()
	}
	return 1 + size/creditBytes
}

// credit tells the server what the model has taken.
func (c *Call) credit(taken int) {
	if taken == 0 || !c.many {
		return
	}
	g := c.guest
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out = wire.AppendCredit(g.out, 0, c.id, taken)
	_ = g.sendLocked(nil) // where the channel is broken the reader says so
}
