package worker

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/near"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// views makes tensors of what a worker sent.
type views struct {
	work    guard[work]
	outputs *segment.Outputs // the worker's own memory
	near    *near.Near       // or nil
	host    backend.Host     // or nil
}

// tensor makes a tensor of what a worker sent: a view of the frame, of the worker's
// memory or, where from is given, of the inputs that the worker was sent. BYTES in
// shared memory are copied before they are checked, because the worker could change them.
// The tensor has no buffer when it lay in inputs that are gone.
func (v *views) tensor(name string, e *wire.Entry, cur *wire.Cursor, in *wire.Chunk, from *returned) (tensor.Tensor, error) {
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
	if e.Segment == wire.NearSegment {
		return v.nearTensor(t, e, cur)
	}
	var buf *tensor.Buffer
	var data []byte
	if from != nil && e.Segment < wire.FirstOutputSegment {
		if from.gone {
			return t, nil
		}
		var ok bool
		if buf, data, ok = v.find(from, e); !ok {
			cur.Fail("segment", cur.Offset(), "segment %d does not exist, or holds no input of the request at %d", e.Segment, e.Offset)
			return t, cur.Err()
		}
	} else {
		var err error
		if buf, err = v.outputs.View(e.Segment, e.Offset, e.Length); err != nil {
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
		own, err := v.ordinary(len(data))
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

// nearTensor is tensor for memory that the sender of the request has given: nobody but the
// worker, which has handed it over, writes there.
func (v *views) nearTensor(t tensor.Tensor, e *wire.Entry, cur *wire.Cursor) (tensor.Tensor, error) {
	buf := v.near.Take(e.Offset)
	if buf == nil {
		cur.Fail("segment", cur.Offset(), "no memory was given as number %d", e.Offset)
		return t, cur.Err()
	}
	t.Buffer, t.Data = buf, buf.Bytes()
	switch {
	case uint64(t.Size()) != e.Length:
		cur.Fail("length", cur.Offset(), "%d bytes of memory of %d", e.Length, t.Size())
	case t.Datatype == tensor.Bytes:
		if err := wire.CheckBytes(t.Data, t.Shape); err != nil {
			cur.Fail("data", int(e.Offset), "%v", err)
		}
	}
	if cur.Err() != nil {
		t.Release()
	}
	return t, cur.Err()
}

// ordinary allocates memory that no worker has mapped.
func (v *views) ordinary(size int) (*tensor.Buffer, error) {
	if v.host != nil {
		if a := v.host.Allocator(); a != nil {
			return a.Allocate(size)
		}
	}
	return tensor.NewBuffer(wire.Aligned(size), nil), nil
}

// settleOutputs copies outputs from their GPU to the host where the recipient of the
// response does not take them there.
func (v *views) settleOutputs(outputs []tensor.Tensor, inst *Instance, to *returned) *backend.Error {
	for i := range outputs {
		m := outputs[i].Device()
		if m == nil || to.gone || to.takes != nil && to.takes(m.GPU()) {
			continue
		}
		if err := v.toHost(&outputs[i], inst.Arena); err != nil {
			return err
		}
	}
	return nil
}

// toHost copies a tensor to the host: to memory of the arena, which other workers can be
// lent, or to ordinary memory where arena is nil.
func (v *views) toHost(t *tensor.Tensor, arena *segment.Arena) *backend.Error {
	var to tensor.Allocator = ordinaryMemory{v}
	if arena != nil {
		to = arena
	}
	if err := t.ToHost(to); err != nil {
		return backend.Errorf(backend.Internal, "%v", err)
	}
	return nil
}

// ordinaryMemory is views.ordinary as an allocator.
type ordinaryMemory struct{ views *views }

// Allocate implements tensor.Allocator.
func (o ordinaryMemory) Allocate(size int) (*tensor.Buffer, error) { return o.views.ordinary(size) }
