package worker

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/tensor"
)

// handle takes one frame. An error ends the connection. body is a view of in.
func (c *Conn) handle(h Header, body []byte, in *chunk) error {
	switch h.Kind {
	case KindResponses:
		return c.responses(h, body, in)
	case KindResultBatch:
		return c.resultBatch(h, body, in)
	case KindDone:
		message, traceback, err := decodeDone(body)
		if err != nil {
			return err
		}
		var failure error
		if len(message) > 0 {
			failure = c.batchError(h.Instance, message)
			c.mu.Lock()
			if call := c.batches[h.ID]; call != nil {
				call.batch.Ran = true
				if call.batch.OutputStart == 0 {
					call.batch.OutputStart = backend.Now()
				}
			}
			c.mu.Unlock()
			var attrs []any
			if c.opts.Serve != nil { // the process of a user has many models, so the logger names none
				attrs = append(attrs, slog.String("instance", c.instanceName(h.Instance)))
			}
			attrs = append(attrs, slog.String("error", string(message)))
			if len(traceback) > 0 { // none where the program of a bound callable has logged it
				attrs = append(attrs, slog.String("traceback", string(traceback)))
			}
			c.logger().Error("failed to execute a batch", attrs...)
		}
		c.finish(h.ID, failure)
	case KindReady, KindFailed:
		c.mu.Lock()
		answer := c.calls[h.ID]
		delete(c.calls, h.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- reply{h.Kind, append([]byte(nil), body...)}
		}
	case KindHello:
		select {
		case <-c.helloed:
			return &ProtocolError{Kind: h.Kind, Field: "kind", Offset: 3, Detail: "came twice"}
		default:
		}
		if err := json.Unmarshal(body, &c.hello); err != nil {
			return &ProtocolError{Kind: h.Kind, Field: "body", Detail: err.Error()}
		}
		if c.hello.Protocol != 0 && c.hello.Protocol != frameVersion {
			return &ProtocolError{Kind: h.Kind, Field: "protocol", Detail: fmt.Sprintf("%d, expected %d", c.hello.Protocol, frameVersion)}
		}
		c.mu.Lock()
		c.lent.able = c.hello.Lent
		c.mu.Unlock()
		close(c.helloed)
	case KindGrow:
		return c.grow(h, body)
	case KindDropped:
		return c.dropped(body)
	case KindDevices:
		return c.sees(body)
	case KindNotBegun:
		return c.notBegun(h)
	case KindFree:
		c.freed(h)
	case KindRelease:
		return c.released(body)
	case KindLog:
		r, err := decodeLog(body)
		if err != nil {
			return err
		}
		c.log(r)
	case KindInfer:
		return c.infer(h, body, in)
	case KindCancel:
		c.host.cancel(h.ID)
	case KindCredit:
		return c.host.credit(h.ID, body)
	case KindMetric:
		c.called()
		return c.metric(h, body)
	case KindControl:
		c.called()
		return c.control(h, body)
	case KindBind, KindUnbind:
		return c.serve(h, body)
	default:
		return &ProtocolError{Field: "kind", Offset: 3, Detail: h.Kind.String() + " is not for the server"}
	}
	return nil
}

// batchError is what the requests of a failed batch are answered with.
func (c *Conn) batchError(instance uint32, message []byte) *backend.Error {
	return backend.Errorf(backend.Internal, "Failed to process the request(s) for model '%s', message: %s", c.instanceName(instance), message)
}

// instanceName is an instance's name, "" where it is gone.
func (c *Conn) instanceName(number uint32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if inst := c.instances[number]; inst != nil {
		return inst.Name
	}
	return ""
}

// answer is a response with room for its parts, so that a response of common
// size is one allocation.
type answer struct {
	backend.Response
	outputs [2]tensor.Tensor
	dims    [8]int64
}

func (c *Conn) responses(h Header, body []byte, in *chunk) error {
	cur := cursor{kind: h.Kind, body: body}
	n, ends := cur.responsesHead()
	c.mu.Lock()
	if call := c.batches[h.ID]; call != nil && call.batch.OutputStart == 0 {
		call.batch.OutputStart = backend.Now()
	}
	c.mu.Unlock()
	for range n {
		block := cur.responseBlock()
		if cur.err != nil {
			return cur.err
		}
		resp, cost, err := c.response(&cur, &block, in, h.Instance, c.returnedTo(block.Handle))
		if err != nil {
			return err
		}
		c.respond(block.Handle, resp, cost, block.Flags)
	}
	if cur.err != nil {
		return cur.err
	}
	if ends {
		c.finish(h.ID, nil)
	}
	return nil
}

// returnedTo says which blocks an output of the request may lie in beside the
// worker's own.
func (c *Conn) returnedTo(handle uint64) returned {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.requests.find(handle)
	if s == nil {
		return returned{gone: true}
	}
	return returned{inputs: s.req.Inputs, bufs: s.copies, takes: s.req.TakesDevice}
}

// response decodes what follows the head of a block, and what it costs in
// credit; nil when there is none.
func (c *Conn) response(cur *cursor, block *ResponseBlock, in *chunk, instance uint32, from returned) (resp *backend.Response, cost int, err error) {
	if block.Flags&responseNone != 0 {
		return nil, 0, nil
	}
	params, err := parseParameters(block.Parameters)
	if err != nil {
		cur.fail("parameters", cur.off, "%v", err)
		return nil, 0, cur.err
	}
	if block.Code != noError {
		return &backend.Response{Parameters: params, Err: &backend.Error{Code: backend.Code(block.Code), Message: string(block.Message)}}, 1, nil
	}
	c.mu.Lock()
	inst := c.instances[instance]
	c.mu.Unlock()
	if inst == nil {
		cur.fail("instance", 8, "%d does not exist", instance)
		return nil, 0, cur.err
	}
	a := &answer{}
	bytes := uint64(0)
	a.Parameters = params
	a.Outputs = a.outputs[:0]
	dims := tensor.Shape(a.dims[:0])
	for range block.Outputs {
		var e Entry
		e, dims = cur.entry(dims)
		bytes += e.Length
		if cur.err == nil {
			a.Outputs, err = c.output(a.Outputs, &e, cur, in, inst, &from)
		}
		if cur.err != nil || err != nil {
			a.Release()
			if err == nil {
				err = cur.err
			}
			return nil, 0, err
		}
	}
	cost = 1 + int(bytes/creditBytes)
	if err := c.settleOutputs(a.Outputs, inst, &from); err != nil {
		a.Release()
		return &backend.Response{Parameters: params, Err: err}, cost, nil
	}
	return &a.Response, cost, nil
}

// output appends the tensor of an entry to list; a name that the model does
// not have is dropped.
func (c *Conn) output(list []tensor.Tensor, e *Entry, cur *cursor, in *chunk, inst *Instance, from *returned) ([]tensor.Tensor, error) {
	name := ""
	switch {
	case e.Index >= len(inst.Tables.Outputs):
		cur.fail("index", cur.off, "output %d of %d", e.Index, len(inst.Tables.Outputs))
		return list, cur.err
	case e.Index >= 0:
		name = inst.Tables.Outputs[e.Index]
	default:
		if i := inst.Tables.output(string(e.Name)); i >= 0 {
			name = inst.Tables.Outputs[i]
		}
	}
	t, err := c.tensor(name, e, cur, in, from)
	if err != nil {
		return list, err
	}
	if name == "" || t.Buffer == nil {
		t.Release()
		return list, nil
	}
	return append(list, t), nil
}

// tensor makes a tensor of what a worker sent: a view of the frame, of the
// worker's memory, or, where from is given, of the inputs that it was sent.
// BYTES are checked where the worker cannot change them any more. The tensor
// has no buffer when it lay in inputs that are gone.
func (c *Conn) tensor(name string, e *Entry, cur *cursor, in *chunk, from *returned) (tensor.Tensor, error) {
	t := tensor.Tensor{Name: name, Datatype: e.Datatype, Shape: e.Shape}
	if e.Inline() {
		t.Data = cur.body[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
		if e.Datatype == tensor.Bytes {
			if err := checkBytes(t.Data, t.Shape); err != nil {
				cur.fail("data", int(e.Offset), "%v", err)
				return t, cur.err
			}
		}
		t.Buffer = in.Retain()
		return t, nil
	}
	var buf *tensor.Buffer
	var data []byte
	if from != nil && e.Segment < firstOutputSegment {
		if from.gone {
			return t, nil
		}
		var ok bool
		if buf, data, ok = from.find(c, e); !ok {
			cur.fail("segment", cur.off, "segment %d does not exist, or holds no input of the request at %d", e.Segment, e.Offset)
			return t, cur.err
		}
	} else {
		var err error
		if buf, err = c.mem.view(e.Segment, e.Offset, e.Length); err != nil {
			cur.fail("segment", cur.off, "%v", err)
			return t, cur.err
		}
		data = buf.Bytes()
	}
	if e.Datatype == tensor.Bytes {
		if len(data) != int(e.Length) {
			buf.Release()
			cur.fail("segment", cur.off, "BYTES do not lie on a GPU")
			return t, cur.err
		}
		own, err := c.ordinary(len(data))
		if err != nil {
			buf.Release()
			return t, err
		}
		copy(own.Bytes(), data)
		buf.Release()
		buf, data = own, own.Bytes()
		if err := checkBytes(data, t.Shape); err != nil {
			buf.Release()
			cur.fail("data", int(e.Offset), "%v", err)
			return t, cur.err
		}
	}
	t.Buffer, t.Data = buf, data
	return t, nil
}

func (c *Conn) ordinary(size int) (*tensor.Buffer, error) {
	if c.opts.Host != nil {
		if a := c.opts.Host.Allocator(); a != nil {
			return a.Allocate(size)
		}
	}
	return tensor.NewBuffer(aligned(size), nil), nil
}

// respond delivers one response, or only the final mark, to the request of the
// handle. A stale handle is ignored: its batch has failed before. cost is what
// the response counts in its stream.
func (c *Conn) respond(handle uint64, resp *backend.Response, cost int, flags uint32) {
	final, again := flags&responseFinal != 0, flags&responseAgain != 0
	c.mu.Lock()
	s := c.requests.find(handle)
	if s == nil {
		copies := c.lateLocked(handle, flags)
		c.mu.Unlock()
		resp.Release()
		releaseBuffers(copies)
		return
	}
	req, inst, first := s.req, s.inst, !s.sent
	s.sent = s.sent || resp != nil
	if inst.Decoupled && s.stream == nil {
		s.stream = newStream(req, c.creditor(inst, handle))
		c.wg.Go(s.stream.deliver)
	}
	queue := s.stream
	var copies []*tensor.Buffer
	if final || again {
		copies = s.copies
		if flags&responseRetained != 0 {
			c.holdLocked(s)
		}
		c.requests.remove(handle)
	}
	c.mu.Unlock()
	if inst.Decoupled && (final || again) {
		req.Settle(again) // what was sent before may wait for the client
	}
	switch {
	case queue != nil:
		queue.push(streamItem{resp, cost, final, again}, c.closing)
	case again:
		reschedule(req)
	case resp != nil && !first:
		resp.Release() // a model that is not decoupled gives one response
		if final {
			_ = req.Respond(nil, true)
		}
	case final && resp == nil && first:
		_ = req.Respond(&backend.Response{Err: noAnswer(inst, 1).(*backend.Error)}, true) //nolint:errorlint // made so
	default:
		_ = req.Respond(resp, final) // a cancelled request needs nothing more
	}
	releaseBuffers(copies)
}

// reschedule gives a request back that the model wants to see again.
func reschedule(req *backend.Request) {
	if err := req.Reschedule(); err != nil {
		_ = req.Respond(&backend.Response{Err: backend.AsError(err)}, true) // a request that has ended needs nothing more
	}
}

// holdLocked keeps the inputs of a request in place that the model still
// refers to, until RELEASE comes for each of them.
func (c *Conn) holdLocked(s *requestState) {
	c.holdInputsLocked(s.inst, s.req.Inputs)
	for _, b := range s.copies {
		c.holdBlockLocked(s.inst.Arena, b.Region(), b)
	}
}

// holdBatch does the same for a gathered batch.
func (c *Conn) holdBatch(call *batchCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdInputsLocked(call.inst, call.batch.Inputs)
	for i := range call.copies {
		c.holdBlockLocked(call.inst.Arena, call.copies[i].buf.Region(), call.copies[i].buf)
	}
}

func (c *Conn) holdInputsLocked(inst *Instance, inputs []tensor.Tensor) {
	for i := range inputs {
		t := &inputs[i]
		if len(t.Data) <= inst.InlineLimit && !t.OnDevice() {
			continue
		}
		if at, ok := inst.Arena.locate(t); ok {
			c.holdBlockLocked(inst.Arena, tensor.Region{Segment: at.segment, Offset: at.offset}, t.Buffer)
		} else if at, ok := c.lentLocked(inst, t); ok {
			c.holdKeyLocked(at, t.Buffer)
		}
	}
}

func (c *Conn) holdBlockLocked(arena *Arena, at tensor.Region, buf *tensor.Buffer) {
	known := c.arenas[arena]
	if at.Segment >= uint32(len(known)) {
		return
	}
	c.holdKeyLocked(blockKey{known[at.Segment], at.Offset}, buf)
}

func (c *Conn) holdKeyLocked(k blockKey, buf *tensor.Buffer) {
	if n := c.early[k]; n > 0 {
		if n == 1 {
			delete(c.early, k)
		} else {
			c.early[k] = n - 1
		}
		return
	}
	c.held[k] = append(c.held[k], buf.Retain())
}

// released takes the worker's notice that it no longer reads some blocks.
func (c *Conn) released(body []byte) error {
	var done []*tensor.Buffer
	c.mu.Lock()
	err := decodeRelease(body, func(k blockKey) {
		list := c.held[k]
		if len(list) == 0 {
			c.early[k]++
			return
		}
		done = append(done, list[len(list)-1])
		if len(list) == 1 {
			delete(c.held, k)
		} else {
			c.held[k] = list[:len(list)-1]
		}
	})
	if err == nil && len(c.early) > earlyLimit {
		err = &ProtocolError{Kind: KindRelease, Field: "block", Offset: 4, Detail: "too many blocks that are not held"}
	}
	c.mu.Unlock()
	releaseBuffers(done)
	return err
}

func (c *Conn) resultBatch(h Header, body []byte, in *chunk) error {
	entries, flags, err := DecodeResultBatch(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	call := c.batches[h.ID]
	c.mu.Unlock()
	cur := cursor{kind: h.Kind, body: body}
	if call == nil && c.opts.KeepStuck {
		return c.lateResult(h, entries, &cur, in)
	}
	if call == nil || !call.inst.Gather || call.outputs != nil {
		cur.fail("id", 16, "batch %d awaits no result", h.ID)
		return cur.err
	}
	call.batch.OutputStart = backend.Now()
	outputs := make([]tensor.Tensor, 0, len(entries))
	from := returned{inputs: call.batch.Inputs, copies: call.copies}
	for i := range entries {
		if outputs, err = c.output(outputs, &entries[i], &cur, in, call.inst, &from); err != nil {
			for k := range outputs {
				outputs[k].Release()
			}
			return err
		}
	}
	call.outputs = outputs
	if flags&flagHeld != 0 {
		c.holdBatch(call)
	}
	if flags&flagEnds != 0 {
		c.finish(h.ID, nil)
	}
	return nil
}

// grow gives the worker more output memory, and before it the notices that
// may have made it superfluous.
func (c *Conn) grow(h Header, body []byte) error {
	need, gpu, err := decodeGrow(body)
	if err != nil {
		return err
	}
	if gpu != nil {
		return c.growDevice(h.ID, need, *gpu)
	}
	s, err := c.mem.grow(need)
	if err != nil {
		return c.reply(h.ID, nil, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil
	}
	c.releasesLocked()
	if err := c.sendSegmentLocked(s, s.number, segmentOutputs); err != nil {
		return err
	}
	c.flushLocked()
	return nil
}

// reply answers a call of the worker with READY, or FAILED when err is set.
func (c *Conn) reply(id uint64, value any, err error) error {
	kind := KindReady
	if err != nil {
		kind, value = KindFailed, FailedBody{Message: err.Error()}
	} else if value == nil {
		value = struct{}{}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil
	}
	if c.out, err = AppendFrame(c.out, kind, 0, id, text); err != nil {
		return err
	}
	c.flushLocked()
	return nil
}

func (c *Conn) log(r LogRecord) {
	level := slog.LevelInfo
	switch r.Level {
	case logWarn:
		level = slog.LevelWarn
	case logError:
		level = slog.LevelError
	case logVerbose:
		level = slog.LevelDebug
	}
	record := slog.NewRecord(time.Now(), level, string(r.Message), 0)
	record.AddAttrs(logging.Source(string(r.File), int(r.Line)))
	h := c.logger().Handler()
	if h.Enabled(c.ctx, level) && c.opts.rate.allows(len(r.Message)) {
		_ = h.Handle(c.ctx, record) // a log that cannot be written has nowhere to say so
	}
}

// abandon answers everything in flight with the cause of the end.
func (c *Conn) abandon() {
	cause := c.cause()
	c.abandonLines()
	c.mu.Lock()
	batches := c.batches
	c.batches = map[uint64]*batchCall{}
	calls := c.calls
	c.calls = map[uint64]chan reply{}
	held := c.held
	c.held = map[blockKey][]*tensor.Buffer{}
	c.early = map[blockKey]int{}
	givenUp := c.forsaken
	c.forsaken = map[uint64]forsaken{}
	c.errands = nil
	c.out, c.spare, c.left = nil, nil, nil
	c.mu.Unlock()
	_ = calls // their callers see done
	for _, call := range batches {
		for i := range call.outputs {
			call.outputs[i].Release()
		}
		call.outputs = nil
		c.settle(call, cause)
	}
	c.mu.Lock()
	var left []uint64 // of decoupled models, after their batch
	for i := range c.requests.slots {
		if s := &c.requests.slots[i]; s.req != nil {
			left = append(left, uint64(s.generation)<<32|uint64(i))
		}
	}
	c.mu.Unlock()
	for _, h := range left {
		c.respond(h, &backend.Response{Err: cause}, 0, responseFinal)
	}
	for _, list := range held {
		releaseBuffers(list)
	}
	for _, batch := range givenUp {
		releaseBuffers(batch.kept)
	}
	c.host.metrics.close()
}
