package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// callLimit bounds the calls that one worker may have under way.
const callLimit = 1024

// hostCalls are a worker's calls into the server: BLS requests, model control
// and custom metrics.
type hostCalls struct {
	mu      sync.Mutex
	infers  map[uint64]*inferCall
	running int

	metrics hostMetrics
}

func (h *hostCalls) init() {
	h.infers = map[uint64]*inferCall{}
	h.metrics.init()
}

// begin reserves a place for a call.
func (h *hostCalls) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running >= callLimit {
		return false
	}
	h.running++
	return true
}

func (h *hostCalls) finish() {
	h.mu.Lock()
	h.running--
	h.mu.Unlock()
}

func (h *hostCalls) cancel(id uint64) {
	h.mu.Lock()
	call := h.infers[id]
	h.mu.Unlock()
	if call != nil {
		call.stop()
	}
}

// credit notes what the worker has taken of the responses to a call.
func (h *hostCalls) credit(id uint64, body []byte) error {
	taken, err := decodeCredit(body)
	if err != nil {
		return err
	}
	h.mu.Lock()
	call := h.infers[id]
	h.mu.Unlock()
	if call != nil && call.window != nil {
		call.window.credit(taken)
	}
	return nil
}

var (
	errNoHost       = backend.Errorf(backend.Unsupported, "calls into the server are not possible here")
	errTooManyCalls = backend.Errorf(backend.Unavailable, "the model has more than %d calls into the server under way", callLimit)
)

// inferCall is a BLS request under way. It takes the responses of the called
// model and sends them to the worker.
type inferCall struct {
	conn      *Conn
	id        uint64
	arena     *Arena
	inline    int
	decoupled bool
	window    *callWindow // nil when the worker returns no credit
	device    bool        // outputs may lie on a GPU
	ctx       context.Context
	stop      context.CancelFunc
	req       *backend.Request
	mu        sync.Mutex
	first     *backend.Response // of a call that expects one
	answered  bool
}

func (c *Conn) infer(h Header, body []byte, in *chunk) error {
	decoded, err := decodeInfer(body)
	if err != nil {
		return err
	}
	if !decoded.Alone {
		c.called() // by a thread of its own, perhaps: more may come at any time
	}
	params, err := parseParameters(decoded.Request.Parameters)
	if err != nil {
		return &ProtocolError{Kind: h.Kind, Field: "parameters", Detail: err.Error()}
	}
	c.mu.Lock()
	inst := c.instances[h.Instance]
	var caller backend.Caller
	if inst != nil {
		caller = inst.Caller
		caller.Waits, caller.Abandoned = c.executingLocked(inst)
	}
	c.mu.Unlock()
	call := &inferCall{conn: c, id: h.ID, decoupled: decoded.Decoupled, inline: DefaultInlineLimit}
	if decoded.Window {
		call.window = &callWindow{more: make(chan struct{}, 1)}
	}
	if inst != nil {
		call.arena, call.inline = inst.Arena, inst.InlineLimit
	} else {
		call.arena = c.opts.Arena
	}
	r := &decoded.Request
	req := &backend.Request{
		ID: string(r.ID), ModelName: string(decoded.Model), ModelVersion: decoded.Version,
		Correlation: backend.CorrelationID{Number: r.Correlation, Text: string(r.CorrelationText)},
		Flags:       backend.Flags(r.Flags & 3), Priority: r.Priority, Timeout: r.Timeout,
		Parameters: params, BatchSize: int(r.BatchSize), Trace: string(r.Trace), Caller: caller, Responder: call,
	}
	if decoded.Device && c.opts.Devices != nil {
		call.device, req.TakesDevice = true, c.seesDevice
	}
	for _, name := range decoded.Requested {
		req.Requested = append(req.Requested, string(name))
	}
	cur := cursor{kind: h.Kind, body: body}
	for i := range r.Inputs {
		t, err := c.tensor(string(r.Inputs[i].Name), &r.Inputs[i], &cur, in, &returned{open: true})
		if err != nil {
			releaseTensors(req.Inputs)
			return err
		}
		req.Inputs = append(req.Inputs, t)
	}
	call.req = req
	call.ctx, call.stop = context.WithCancel(c.ctx)
	req.Ctx = call.ctx
	refusal := error(nil)
	switch {
	case c.opts.Host == nil:
		refusal = errNoHost
	case !c.host.begin():
		refusal = errTooManyCalls
	}
	if refusal != nil {
		call.stop()
		releaseTensors(req.Inputs)
		return call.send(&backend.Response{Err: backend.AsError(refusal)}, true, false)
	}
	c.host.mu.Lock()
	c.host.infers[h.ID] = call
	c.host.mu.Unlock()
	if decoded.Alone && c.r.leading && !c.r.rd.buffered() {
		// Nothing more comes before the answer, so that whoever reads may as well go
		// and fetch it: that saves two switches between goroutines. See lead.
		c.r.fetch = call
		return nil
	}
	// The server may queue, load or refuse: not the reader's time.
	c.wg.Go(call.run)
	return nil
}

// run sends the request to the called model. It may wait for the model.
func (i *inferCall) run() {
	if err := i.conn.opts.Host.Infer(i.req); err != nil {
		_ = i.Respond(&backend.Response{Err: backend.AsError(err)}, true) // the worker is gone then
	}
}

// executingLocked reports whether the worker has a batch of the instance, and
// whether the requests of the one that it runs have all been cancelled.
func (c *Conn) executingLocked(inst *Instance) (executing, abandoned bool) {
	var oldest *batchCall
	for id, call := range c.batches {
		if call.inst == inst && (oldest == nil || id < oldest.id) {
			oldest = call
		}
	}
	if oldest == nil {
		return false, false
	}
	for _, r := range oldest.batch.Requests {
		if r.Responder == nil || !r.Cancelled() {
			return true, false
		}
	}
	return true, true
}

func releaseTensors(list []tensor.Tensor) {
	for i := range list {
		list[i].Release()
	}
}

// Cancelled implements backend.Responder.
func (i *inferCall) Cancelled() bool { return i.ctx.Err() != nil }

// Respond implements backend.Responder.
func (i *inferCall) Respond(resp *backend.Response, final bool) error {
	i.mu.Lock()
	if i.answered {
		i.mu.Unlock()
		resp.Release()
		return errEnded
	}
	if final {
		i.answered = true
	}
	if !i.decoupled {
		// One answer is expected: it waits for the final mark.
		switch {
		case resp != nil && i.first != nil:
			resp.Release()
			i.first.Release()
			i.first = &backend.Response{Err: decoupledCallee(i.req.ModelName)}
		case resp != nil:
			i.first = resp
		}
		resp = i.first
		if !final {
			i.mu.Unlock()
			return nil
		}
		i.first = nil
	}
	i.mu.Unlock()
	if i.window != nil && resp != nil && !final {
		if !i.window.spend(i.ctx, resp) {
			resp.Release()
			return backend.AsError(i.ctx.Err())
		}
	}
	err := i.send(resp, final, i.decoupled)
	if final {
		i.stop()
		i.conn.host.mu.Lock()
		delete(i.conn.host.infers, i.id)
		i.conn.host.mu.Unlock()
		i.conn.host.finish()
		releaseTensors(i.req.Inputs)
	}
	return err
}

func decoupledCallee(model string) *backend.Error {
	return backend.Errorf(backend.Internal, "Model %[1]s - Error when running inference: Model %[1]s is using the decoupled. The current BLS request call doesn't support models using the decoupled transaction policy. Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'", model)
}

// send consumes the response. With wait set it waits while the worker does not
// read.
func (i *inferCall) send(resp *backend.Response, final, wait bool) error {
	defer resp.Release()
	var unshared []sharedOutput
	defer func() { releaseShared(unshared) }() // after mu is unlocked
	c := i.conn
	out := outgoing{handle: i.id}
	if final {
		out.flags |= responseFinal
	}
	var shared []sharedOutput
	if resp == nil {
		out.flags |= responseNone
	} else {
		out.err, out.parameters = resp.Err, resp.Parameters
		if resp.Err == nil {
			out.outputs = resp.Outputs
			var err error
			if shared, err = i.share(resp.Outputs, &out); err != nil {
				out = outgoing{handle: i.id, flags: out.flags, err: backend.AsError(err)}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Only the responses of a decoupled callee may wait: the others come on the
	// reader of the callee's connection.
	for wait && len(c.out) > callRoom && c.err == nil {
		c.room.Wait()
	}
	if c.err != nil {
		unshared = shared
		return errEnded
	}
	c.releasesLocked()
	for k, s := range shared {
		if !s.lent {
			r := s.buf.Region()
			wire, err := c.wireLocked(i.arena, r.Segment)
			if err != nil {
				unshared = shared[k:]
				return err
			}
			out.places[s.output] = place{segment: wire, offset: r.Offset}
		}
		at := out.places[s.output]
		key := blockKey{at.segment, at.offset}
		c.held[key] = append(c.held[key], s.buf)
	}
	var err error
	c.out, err = c.enc.appendResponses(c.out, KindInferResponses, 0, i.id, 0, []outgoing{out})
	if err != nil {
		return err
	}
	c.flushLocked()
	return nil
}

// sharedOutput is an output of a called model that the caller reads in shared
// memory, until it says that it no longer does.
type sharedOutput struct {
	output int // index in the response
	buf    *tensor.Buffer
	lent   bool // lies where the called model put it
}

func releaseShared(list []sharedOutput) {
	for _, s := range list {
		s.buf.Release()
	}
}

// share brings large outputs of the called model to the caller: it is lent the
// memory that they lie in, or they are copied into its input memory.
func (i *inferCall) share(outputs []tensor.Tensor, out *outgoing) ([]sharedOutput, error) {
	var shared []sharedOutput
	out.places = make([]place, len(outputs))
	for k := range outputs {
		out.places[k] = place{segment: InlineSegment}
		if outputs[k].OnDevice() {
			if i.device {
				if at, ok := i.conn.lend(&outputs[k]); ok {
					out.places[k] = at
					shared = append(shared, sharedOutput{k, outputs[k].Buffer.Retain(), true})
					continue
				}
			}
			if err := i.conn.toHost(&outputs[k], nil); err != nil {
				releaseShared(shared)
				return nil, err
			}
		}
		data := outputs[k].Data
		if len(data) <= i.inline || i.arena == nil {
			continue
		}
		if at, ok := i.conn.lend(&outputs[k]); ok {
			out.places[k] = at
			shared = append(shared, sharedOutput{k, outputs[k].Buffer.Retain(), true})
			continue
		}
		buf, err := i.arena.allocateShared(len(data))
		if err != nil {
			releaseShared(shared)
			return nil, err
		}
		copy(buf.Bytes(), data)
		shared = append(shared, sharedOutput{k, buf, false}) // its place is known when it is sent
	}
	return shared, nil
}

func (c *Conn) control(h Header, body []byte) error {
	var b controlBody
	if err := json.Unmarshal(body, &b); err != nil {
		return &ProtocolError{Kind: h.Kind, Field: "body", Detail: err.Error()}
	}
	if c.opts.Host == nil {
		return c.reply(h.ID, nil, errNoHost)
	}
	if c.opts.Serve != nil && b.Op != "load" && b.Op != "unload" && b.Op != "is_ready" {
		return c.serve(h, body)
	}
	if b.Op == "is_ready" {
		return c.reply(h.ID, map[string]bool{"ready": c.opts.Host.Ready(b.Model, b.Version)}, nil)
	}
	if !c.host.begin() {
		return c.reply(h.ID, nil, errTooManyCalls)
	}
	c.wg.Go(func() { // loading takes its time
		defer c.host.finish()
		var err error
		switch b.Op {
		case "load":
			err = c.opts.Host.Load(c.ctx, b.Model, b.Config, b.Files)
		case "unload":
			err = c.opts.Host.Unload(c.ctx, b.Model, b.Dependents)
		default:
			err = fmt.Errorf("unknown operation '%s' of model control", b.Op)
		}
		if err := c.reply(h.ID, nil, err); err != nil {
			c.end(err)
		}
	})
	return nil
}
