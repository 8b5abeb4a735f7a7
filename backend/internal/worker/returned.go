package worker

import (
	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// returned are the blocks in which the outputs of a batch or request may lie, other than
// the worker's own memory. These are the blocks of its inputs, which a callable may change
// in place or pass through, and the answers to calls that the worker has not released.
type returned struct {
	inputs []tensor.Tensor
	copies []inflight.Copy  // of a gathered batch
	bufs   []*tensor.Buffer // copies of a request
	// gone says that the request has been answered without its worker. Then the blocks
	// belong to others by now, and outputs in them are dropped.
	gone bool
	// open adds the inputs of all requests that the worker has, where the inputs of a
	// call may lie.
	open bool
	// takes is Request.TakesDevice.
	takes func(tensor.GPU) bool
}

// find returns the buffer and the bytes of an output in an input block, whose
// reference it takes; false when it does not lie there.
func (v *views) find(r *returned, e *wire.Entry) (*tensor.Buffer, []byte, bool) {
	w := v.work.lock()
	at, known := w.shared.at(e.Segment)
	v.work.unlock()
	if !known {
		return nil, nil, false
	}
	if gpu := at.Device(); gpu != nil {
		for i := range r.inputs {
			t := &r.inputs[i]
			if t.Device() == tensor.DeviceMemory(gpu) && t.Buffer.Region().Offset == e.Offset && e.Length <= uint64(t.Size()) {
				return t.Buffer.Retain(), nil, true
			}
		}
		return nil, nil, false
	}
	within := func(b *tensor.Buffer) ([]byte, bool) {
		if b == nil {
			return nil, false
		}
		region, size := b.Region(), uint64(b.Len())
		if e.Offset < region.Offset || segment.At(region) != at {
			return nil, false
		}
		from := e.Offset - region.Offset
		if from > size || e.Length > size-from {
			return nil, false
		}
		return b.Bytes()[from : from+e.Length : from+e.Length], true
	}
	for i := range r.inputs {
		if data, ok := within(r.inputs[i].Buffer); ok {
			return r.inputs[i].Buffer.Retain(), data, true
		}
	}
	for i := range r.copies {
		if data, ok := within(r.copies[i].Buffer); ok {
			return r.copies[i].Buffer.Retain(), data, true
		}
	}
	for _, b := range r.bufs {
		if data, ok := within(b); ok {
			return b.Retain(), data, true
		}
	}
	w = v.work.lock()
	defer v.work.unlock()
	for _, b := range w.shared.ledger.Held(wire.Block{Segment: e.Segment, Offset: e.Offset}) {
		if data, ok := within(b); ok {
			return b.Retain(), data, true
		}
	}
	if !r.open {
		return nil, nil, false
	}
	for _, open := range w.batches.Requests() {
		for k := range open.Request.Inputs {
			if data, ok := within(open.Request.Inputs[k].Buffer); ok {
				return open.Request.Inputs[k].Buffer.Retain(), data, true
			}
		}
		for _, b := range open.Copies {
			if data, ok := within(b); ok {
				return b.Retain(), data, true
			}
		}
	}
	return nil, nil, false
}
