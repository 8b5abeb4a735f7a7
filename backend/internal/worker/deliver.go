package worker

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/tensor"
)

// handle takes one frame. An error ends the connection. body is a view of in.
func (c *reading) handle(h wire.Header, body []byte, in *wire.Chunk) error {
	switch h.Kind {
	case wire.KindResponses:
		return c.responses(h, body, in)
	case wire.KindResultBatch:
		return c.resultBatch(h, body, in)
	case wire.KindDone:
		return c.batchDone(h, body)
	case wire.KindReady, wire.KindFailed:
		c.replied(h, body)
	case wire.KindHello:
		return c.greeted(h, body)
	case wire.KindGrow:
		return c.grow(h, body)
	case wire.KindDropped:
		return c.dropped(body)
	case wire.KindDevices:
		return c.sees(body)
	case wire.KindNotBegun:
		return c.notBegun(h)
	case wire.KindFree:
		c.freed(h)
	case wire.KindRelease:
		return c.released(body)
	case wire.KindLog:
		r, err := wire.DecodeLog(body)
		if err != nil {
			return err
		}
		c.log(r)
	case wire.KindInfer:
		return c.infer(h, body, in)
	case wire.KindCancel:
		c.host.Cancel(h.ID)
	case wire.KindCredit:
		return c.host.Credit(h.ID, body)
	case wire.KindMetric:
		c.called()
		return c.host.Metric(h, body)
	case wire.KindControl:
		c.called()
		var other func() error
		if c.opts.Serve != nil {
			other = func() error { return c.serve(h, body) }
		}
		return c.host.Control(c.ctx, h, body, other)
	case wire.KindBind, wire.KindUnbind:
		return c.serve(h, body)
	default:
		return &wire.ProtocolError{Field: "kind", Offset: 3, Detail: h.Kind.String() + " is not for the server"}
	}
	return nil
}

// batchDone takes the end of a batch, or its failure.
func (c *reading) batchDone(h wire.Header, body []byte) error {
	message, traceback, err := wire.DecodeDone(body)
	if err != nil {
		return err
	}
	var failure error
	if len(message) > 0 {
		failure = c.batchError(h.Instance, message)
		c.mu.Lock()
		if b := c.batches.Find(h.ID); b != nil {
			b.Batch.Ran = true
			if b.Batch.OutputStart == 0 {
				b.Batch.OutputStart = backend.Now()
			}
		}
		c.mu.Unlock()
		var attrs []any
		if c.opts.Serve != nil { // the process of a user has many models, so the logger names none
			attrs = append(attrs, slog.String("instance", c.instanceName(h.Instance)))
		}
		attrs = append(attrs, slog.String("error", string(message)))
		if len(traceback) > 0 { // none where the program of a bound callable has logged it
			attrs = append(attrs, logging.Block("traceback", string(traceback)))
		}
		c.logger().Error("failed to execute a batch", attrs...)
	}
	c.finish(h.ID, failure)
	return nil
}

// replied takes the answer to a Call.
func (c *reading) replied(h wire.Header, body []byte) {
	c.mu.Lock()
	answer := c.calls[h.ID]
	delete(c.calls, h.ID)
	c.mu.Unlock()
	if answer != nil {
		answer <- reply{h.Kind, append([]byte(nil), body...)}
	}
}

// greeted takes the worker's first word.
func (c *reading) greeted(h wire.Header, body []byte) error {
	select {
	case <-c.helloed:
		return &wire.ProtocolError{Kind: h.Kind, Field: "kind", Offset: 3, Detail: "came twice"}
	default:
	}
	if err := json.Unmarshal(body, &c.hello); err != nil {
		return &wire.ProtocolError{Kind: h.Kind, Field: "body", Detail: err.Error()}
	}
	if c.hello.Protocol != 0 && c.hello.Protocol != wire.Version {
		return &wire.ProtocolError{Kind: h.Kind, Field: "protocol", Detail: fmt.Sprintf("%d, expected %d", c.hello.Protocol, wire.Version)}
	}
	c.mu.Lock()
	c.borrows = c.hello.Lent
	c.mu.Unlock()
	close(c.helloed)
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

// respond delivers one response, or only the final mark, to the request of the
// handle. A stale handle is ignored: its batch has failed before. cost is what
// the response counts in its stream.
func (c *reading) respond(handle uint64, resp *backend.Response, cost int, flags uint32) {
	final, again := flags&wire.ResponseFinal != 0, flags&wire.ResponseAgain != 0
	c.mu.Lock()
	r := c.batches.Request(handle)
	if r == nil {
		copies := c.lateLocked(handle, flags)
		c.mu.Unlock()
		resp.Release()
		releaseBuffers(copies)
		return
	}
	req, inst, first := r.Request, r.Instance, !r.Sent
	r.Sent = r.Sent || resp != nil
	if inst.Decoupled && r.Stream == nil {
		r.Stream = stream.New(req, c.creditor(inst, handle))
		c.wg.Go(r.Stream.Deliver)
	}
	queue := r.Stream
	var copies []*tensor.Buffer
	if final || again {
		if flags&wire.ResponseRetained != 0 {
			c.holdLocked(r)
		}
		copies = c.batches.Answered(handle)
	}
	c.mu.Unlock()
	if inst.Decoupled && (final || again) {
		req.Settle(again) // what was sent before may wait for the client
	}
	switch {
	case queue != nil:
		queue.Push(stream.Item{Resp: resp, Cost: cost, Final: final, Again: again}, c.closing)
	case again:
		stream.Reschedule(req)
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

// creditor returns the function that returns credit to the worker for a handle.
func (c *Conn) creditor(inst *Instance, handle uint64) func(taken int) {
	if !inst.Window {
		return nil
	}
	return func(taken int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil {
			c.out = wire.AppendCredit(c.out, inst.Number, handle, taken)
			c.flushLocked()
		}
	}
}

// holdLocked keeps the inputs of a request in place that the model still
// refers to, until RELEASE comes for each of them.
func (c *Conn) holdLocked(r *inflight.Request[*Instance]) {
	c.holdInputsLocked(r.Instance, r.Request.Inputs)
	for _, b := range r.Copies {
		c.holdBlockLocked(r.Instance.Arena, b.Region(), b)
	}
}

// holdBatch does the same for a gathered batch.
func (c *reading) holdBatch(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdInputsLocked(b.Instance, b.Batch.Inputs)
	for i := range b.Copies {
		c.holdBlockLocked(b.Instance.Arena, b.Copies[i].Buffer.Region(), b.Copies[i].Buffer)
	}
}

func (c *Conn) holdInputsLocked(inst *Instance, inputs []tensor.Tensor) {
	for i := range inputs {
		t := &inputs[i]
		if len(t.Data) <= inst.InlineLimit && !t.OnDevice() {
			continue
		}
		if at, ok := inst.Arena.Locate(t); ok {
			c.holdBlockLocked(inst.Arena, tensor.Region{Segment: at.Segment, Offset: at.Offset}, t.Buffer)
		} else if at, ok := c.lentLocked(inst, t); ok {
			c.ledger.Hold(at, t.Buffer)
		}
	}
}

func (c *Conn) holdBlockLocked(arena *segment.Arena, at tensor.Region, buf *tensor.Buffer) {
	known := c.arenas[arena]
	if at.Segment >= uint32(len(known)) {
		return
	}
	c.ledger.Hold(wire.Block{Segment: known[at.Segment], Offset: at.Offset}, buf)
}

// released takes the worker's notice that it no longer reads some blocks.
func (c *reading) released(body []byte) error {
	var done []*tensor.Buffer
	c.mu.Lock()
	err := wire.DecodeRelease(body, func(k wire.Block) {
		if b := c.ledger.Release(k); b != nil {
			done = append(done, b)
		}
	})
	if err == nil && c.ledger.Overdrawn() {
		err = &wire.ProtocolError{Kind: wire.KindRelease, Field: "block", Offset: 4, Detail: "too many blocks that are not held"}
	}
	c.mu.Unlock()
	releaseBuffers(done)
	return err
}

// grow gives the worker more output memory, and before it the notices that
// may have made it superfluous.
func (c *reading) grow(h wire.Header, body []byte) error {
	need, gpu, err := wire.DecodeGrow(body)
	if err != nil {
		return err
	}
	if gpu != nil {
		return c.growDevice(h.ID, need, *gpu)
	}
	s, err := c.mem.Grow(need)
	if err != nil {
		return c.reply(h.ID, nil, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil
	}
	c.releasesLocked()
	if err := c.sendSegmentLocked(s.File(), s.Size(), s.Number(), wire.SegmentOutputs); err != nil {
		return err
	}
	c.flushLocked()
	return nil
}

// reply answers a call of the worker with READY, or FAILED when err is set.
func (c *Conn) reply(id uint64, value any, err error) error {
	kind := wire.KindReady
	if err != nil {
		kind, value = wire.KindFailed, wire.FailedBody{Message: err.Error()}
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
	if c.out, err = wire.AppendFrame(c.out, kind, 0, id, text); err != nil {
		return err
	}
	c.flushLocked()
	return nil
}

func (c *reading) log(r wire.LogRecord) {
	level := slog.LevelInfo
	switch r.Level {
	case wire.LogWarn:
		level = slog.LevelWarn
	case wire.LogError:
		level = slog.LevelError
	case wire.LogVerbose:
		level = slog.LevelDebug
	}
	record := slog.NewRecord(time.Now(), level, string(r.Message), 0)
	record.AddAttrs(logging.Source(string(r.File), int(r.Line)))
	h := c.logger().Handler()
	if h.Enabled(c.ctx, level) && c.opts.Rate.Allows(len(r.Message)) {
		_ = h.Handle(c.ctx, record) // a log that cannot be written has nowhere to say so
	}
}

// failAll answers everything in flight with the cause of the end.
func (c *reading) failAll() {
	cause := c.cause()
	c.takeBackAll()
	c.mu.Lock()
	batches, kept := c.batches.Close()
	calls := c.calls
	c.calls = map[uint64]chan reply{}
	held := c.ledger.End()
	c.tasks = nil
	c.out, c.spare, c.left = nil, nil, nil
	c.mu.Unlock()
	_ = calls // their callers see done
	for _, b := range batches {
		for i := range b.Outputs {
			b.Outputs[i].Release()
		}
		b.Outputs = nil
		c.settle(b, cause)
	}
	c.mu.Lock()
	var left []uint64 // of decoupled models, after their batch
	for h := range c.batches.Requests() {
		left = append(left, h)
	}
	c.mu.Unlock()
	for _, h := range left {
		c.respond(h, &backend.Response{Err: cause}, 0, wire.ResponseFinal)
	}
	releaseBuffers(held)
	releaseBuffers(kept)
	c.host.Close()
}
