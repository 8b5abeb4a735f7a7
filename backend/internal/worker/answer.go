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

func (c *reading) responses(h wire.Header, body []byte, in *wire.Chunk) error {
	cur := wire.NewCursor(h.Kind, body)
	n, ends := cur.ResponsesHead()
	c.mu.Lock()
	if b := c.batches.Find(h.ID); b != nil && b.Batch.OutputStart == 0 {
		b.Batch.OutputStart = backend.Now()
	}
	c.mu.Unlock()
	for range n {
		block := cur.ResponseBlock()
		if cur.Err() != nil {
			return cur.Err()
		}
		resp, cost, err := c.response(&cur, &block, in, h.Instance, c.returnedTo(block.Handle))
		if err != nil {
			return err
		}
		c.respond(block.Handle, resp, cost, block.Flags)
	}
	if cur.Err() != nil {
		return cur.Err()
	}
	if ends {
		c.finish(h.ID, nil)
	}
	return nil
}

// returnedTo says which blocks an output of the request may lie in beside the
// worker's own.
func (c *reading) returnedTo(handle uint64) returned {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.batches.Request(handle)
	if r == nil {
		return returned{gone: true}
	}
	return returned{inputs: r.Request.Inputs, bufs: r.Copies, takes: r.Request.TakesDevice}
}

// response decodes what follows the head of a block, and what it costs in
// credit; nil when there is none.
func (c *reading) response(
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
	c.mu.Lock()
	inst := c.instances[instance]
	c.mu.Unlock()
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
			a.Outputs, err = c.output(a.Outputs, &e, cur, in, inst, &from)
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
	if err := c.settleOutputs(a.Outputs, inst, &from); err != nil {
		a.Release()
		return &backend.Response{Parameters: params, Err: err}, cost, nil
	}
	return &a.Response, cost, nil
}

// output appends the tensor of an entry to list; a name that the model does
// not have is dropped.
func (c *reading) output(
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
func (c *reading) tensor(name string, e *wire.Entry, cur *wire.Cursor, in *wire.Chunk, from *returned) (tensor.Tensor, error) {
	t := tensor.Tensor{Name: name, Datatype: e.Datatype, Shape: e.Shape}
	if e.Inline() {
		t.Data = cur.Inline(e)
		if e.Datatype == tensor.Bytes {
			if err := wire.CheckBytes(t.Data, t.Shape); err != nil {
				cur.Fail("data", int(e.Offset), "%v", err)
				return t, cur.Err()
			}
		}
		t.Buffer = in.Retain()
		return t, nil
	}
	var buf *tensor.Buffer
	var data []byte
	if from != nil && e.Segment < wire.FirstOutputSegment {
		if from.gone {
			return t, nil
		}
		var ok bool
		if buf, data, ok = from.find(c, e); !ok {
			cur.Fail("segment", cur.Offset(), "segment %d does not exist, or holds no input of the request at %d", e.Segment, e.Offset)
			return t, cur.Err()
		}
	} else {
		var err error
		if buf, err = c.mem.View(e.Segment, e.Offset, e.Length); err != nil {
			cur.Fail("segment", cur.Offset(), "%v", err)
			return t, cur.Err()
		}
		data = buf.Bytes()
	}
	if e.Datatype == tensor.Bytes {
		if len(data) != int(e.Length) {
			buf.Release()
			cur.Fail("segment", cur.Offset(), "BYTES do not lie on a GPU")
			return t, cur.Err()
		}
		own, err := c.ordinary(len(data))
		if err != nil {
			buf.Release()
			return t, err
		}
		copy(own.Bytes(), data)
		buf.Release()
		buf, data = own, own.Bytes()
		if err := wire.CheckBytes(data, t.Shape); err != nil {
			buf.Release()
			cur.Fail("data", int(e.Offset), "%v", err)
			return t, cur.Err()
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
	return tensor.NewBuffer(wire.Aligned(size), nil), nil
}

// resultBatch takes the outputs of a gathered batch, to be divided.
func (c *reading) resultBatch(h wire.Header, body []byte, in *wire.Chunk) error {
	entries, flags, err := wire.DecodeResultBatch(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	b := c.batches.Find(h.ID)
	c.mu.Unlock()
	cur := wire.NewCursor(h.Kind, body)
	if b == nil && c.opts.KeepStuck {
		return c.lateResult(h, entries, &cur, in)
	}
	if b == nil || !b.Instance.Gather || b.Outputs != nil {
		cur.Fail("id", 16, "batch %d awaits no result", h.ID)
		return cur.Err()
	}
	b.Batch.OutputStart = backend.Now()
	outputs := make([]tensor.Tensor, 0, len(entries))
	from := returned{inputs: b.Batch.Inputs, copies: b.Copies}
	for i := range entries {
		if outputs, err = c.output(outputs, &entries[i], &cur, in, b.Instance, &from); err != nil {
			for k := range outputs {
				outputs[k].Release()
			}
			return err
		}
	}
	b.Outputs = outputs
	if flags&wire.FlagHeld != 0 {
		c.holdBatch(b)
	}
	if flags&wire.FlagEnds != 0 {
		c.finish(h.ID, nil)
	}
	return nil
}
