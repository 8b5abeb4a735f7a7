package worker

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// answer is a response with room for its parts, so that a response of common
// size is one allocation.
type answer struct {
	backend.Response
	outputs [2]tensor.Tensor
	dims    [8]int64
}

// responses takes RESPONSES.
func (f *batchFrames) responses(h wire.Header, body []byte, in *wire.Chunk) error {
	cur := wire.NewCursor(h.Kind, body)
	n, ends := cur.ResponsesHead()
	if b := f.answering(h.ID); b != nil && b.Batch.OutputStart == 0 {
		b.Batch.OutputStart = backend.Now()
	}
	for range n {
		block := cur.ResponseBlock()
		if cur.Err() != nil {
			return cur.Err()
		}
		resp, cost, err := f.response(&cur, &block, in, h.Instance, f.returnedTo(block.Handle))
		if err != nil {
			return err
		}
		f.respond(block.Handle, resp, cost, block.Flags)
	}
	if cur.Err() != nil {
		return cur.Err()
	}
	if ends {
		f.finish(h.ID, nil)
	}
	return nil
}

// returnedTo says in which blocks an output of the request may lie, other than the
// worker's own.
func (f *batchFrames) returnedTo(handle uint64) returned {
	w := f.work.lock()
	defer f.work.unlock()
	r := w.batches.Request(handle)
	if r == nil {
		return returned{gone: true}
	}
	return returned{inputs: r.Request.Inputs, bufs: r.Copies, takes: r.Request.TakesDevice}
}

// response decodes what follows the head of a block. It returns nil when nothing
// follows. cost is what the response counts in the window of its stream.
func (f *batchFrames) response(
	cur *wire.Cursor, block *wire.ResponseBlock, in *wire.Chunk, instance uint32, from returned,
) (resp *backend.Response, cost int, err error) {
	if block.Flags&wire.ResponseNone != 0 {
		return nil, 0, nil
	}
	params, err := wire.ParseParameters(block.Parameters)
	if err != nil {
		cur.Fail("parameters", cur.Offset(), "%v", err)
		return nil, 0, cur.Err()
	}
	if block.Code != wire.NoError {
		return &backend.Response{Parameters: params, Err: &backend.Error{Code: backend.Code(block.Code), Message: string(block.Message)}}, 1, nil
	}
	inst := f.work.lock().instances[instance]
	f.work.unlock()
	if inst == nil {
		cur.Fail("instance", 8, "%d does not exist", instance)
		return nil, 0, cur.Err()
	}
	a := &answer{}
	bytes := uint64(0)
	a.Parameters = params
	a.Outputs = a.outputs[:0]
	dims := tensor.Shape(a.dims[:0])
	for range block.Outputs {
		var e wire.Entry
		e, dims = cur.Entry(dims)
		bytes += e.Length
		if cur.Err() == nil {
			a.Outputs, err = f.output(a.Outputs, &e, cur, in, inst, &from)
		}
		if cur.Err() != nil || err != nil {
			a.Release()
			if err == nil {
				err = cur.Err()
			}
			return nil, 0, err
		}
	}
	cost = 1 + int(bytes/stream.CreditBytes)
	if err := f.views.settleOutputs(a.Outputs, inst, &from); err != nil {
		a.Release()
		return &backend.Response{Parameters: params, Err: err}, cost, nil
	}
	return &a.Response, cost, nil
}

// output appends the tensor of an entry to list. An output that the model does not
// have is dropped.
func (f *batchFrames) output(
	list []tensor.Tensor, e *wire.Entry, cur *wire.Cursor, in *wire.Chunk, inst *Instance, from *returned,
) ([]tensor.Tensor, error) {
	name := ""
	switch {
	case e.Index >= len(inst.Tables.Outputs):
		cur.Fail("index", cur.Offset(), "output %d of %d", e.Index, len(inst.Tables.Outputs))
		return list, cur.Err()
	case e.Index >= 0:
		name = inst.Tables.Outputs[e.Index]
	default:
		if i := inst.Tables.Output(string(e.Name)); i >= 0 {
			name = inst.Tables.Outputs[i]
		}
	}
	t, err := f.views.tensor(name, e, cur, in, from)
	if err != nil {
		return list, err
	}
	if name == "" || t.Buffer == nil {
		t.Release()
		return list, nil
	}
	return append(list, t), nil
}

// respond delivers one response, or only the final mark, to the request of the
// handle. A stale handle is ignored: its batch has failed before. cost is what
// the response counts in the window of its stream.
func (f *batchFrames) respond(handle uint64, resp *backend.Response, cost int, flags uint32) {
	final, again := flags&wire.ResponseFinal != 0, flags&wire.ResponseAgain != 0
	w := f.work.lock()
	r := w.batches.Request(handle)
	if r == nil {
		copies := w.late(handle, flags)
		f.work.unlock()
		resp.Release()
		releaseBuffers(copies)
		return
	}
	req, inst, first := r.Request, r.Instance, !r.Sent
	r.Sent = r.Sent || resp != nil
	if inst.Decoupled && r.Stream == nil {
		r.Stream = stream.New(req, f.creditor(inst, handle))
		f.run(r.Stream.Deliver)
	}
	queue := r.Stream
	var copies []*tensor.Buffer
	if final || again {
		if flags&wire.ResponseRetained != 0 {
			w.shared.hold(r)
		}
		copies = w.batches.Answered(handle)
	}
	f.work.unlock()
	if inst.Decoupled && (final || again) {
		req.Settle(again) // what was sent before may wait for the client
	}
	switch {
	case queue != nil:
		queue.Push(stream.Item{Resp: resp, Cost: cost, Final: final, Again: again}, f.closing)
	case again:
		stream.Reschedule(req)
	case final && resp == nil && first:
		_ = req.Respond(&backend.Response{Err: noAnswer(inst, 1).(*backend.Error)}, true) //nolint:errorlint // made so
	default:
		_ = req.Respond(resp, final) // a cancelled request needs nothing more
	}
	releaseBuffers(copies)
}

// creditor returns the function that returns credit to the worker for a handle.
func (f *batchFrames) creditor(inst *Instance, handle uint64) func(taken int) {
	if !inst.Window {
		return nil
	}
	return func(taken int) {
		out := f.work.lock().out
		defer f.work.unlock()
		if !out.ended {
			out.frames = wire.AppendCredit(out.frames, inst.Number, handle, taken)
			out.flush()
		}
	}
}
