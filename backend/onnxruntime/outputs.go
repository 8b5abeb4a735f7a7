package onnxruntime

import (
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/tensor"
)

// setOutputs gives memory to the outputs whose shape is known beforehand.
func (in *instance) setOutputs() error {
	p := in.plan
	in.outputNames, in.outputs = in.outputNames[:0], in.outputs[:0]
	for at, i := range in.picked {
		o := &p.outputs[i]
		in.outputNames = append(in.outputNames, p.texts.address(len(p.inputs)+i))
		in.outputs = append(in.outputs, 0)
		in.buffers[at], in.shapes[at], in.bounds[at] = nil, nil, nil
		shape, ok := in.shape(o)
		if !ok {
			continue
		}
		size, err := tensor.ByteSize(o.datatype, shape)
		if err != nil {
			continue // ONNX Runtime finds its own words
		}
		if bindable(o.datatype, int(size)) {
			b := &in.boundOutputs[i]
			if in.outputs[at], err = in.bind(b, shape, int(size), o.element); err != nil {
				return err
			}
			in.shapes[at], in.bounds[at] = shape, b
			continue
		}
		b, err := in.memory.Allocate(int(size))
		if err != nil {
			return err
		}
		in.buffers[at], in.shapes[at] = b, shape
		if in.outputs[at], err = in.view(b.Bytes(), shape, o.datatype, o.element); err != nil {
			return err
		}
	}
	return nil
}

// shape predicts that of an output.
func (in *instance) shape(o *plannedOutput) (tensor.Shape, bool) {
	if !o.known.Load() {
		return nil, false
	}
	shape := make(tensor.Shape, len(o.dims))
	for i, d := range o.dims {
		shape[i] = d.size
		if d.size == -1 {
			t := in.given[d.input]
			if t == nil || d.dim >= len(t.Shape) {
				return nil, false
			}
			shape[i] = t.Shape[d.dim]
		}
	}
	return shape, true
}

// takeOutputs makes tensors of what the run left, each with a reference.
func (in *instance) takeOutputs() (all []tensor.Tensor, err error) {
	all = make([]tensor.Tensor, 0, len(in.picked))
	defer func() {
		if err != nil {
			for i := range all {
				all[i].Release()
			}
		}
	}()
	for at, i := range in.picked {
		o := &in.plan.outputs[i]
		t := tensor.Tensor{Name: o.name, Datatype: o.datatype, Shape: in.shapes[at], Buffer: in.buffers[at]}
		switch {
		case in.bounds[at] != nil:
			if err := in.takeBound(at, o, &t); err != nil {
				return all, err
			}
		case t.Buffer == nil:
			if err := in.takeOwned(at, o, &t); err != nil {
				return all, err
			}
		}
		in.buffers[at] = nil
		if len(t.Shape) == 0 && o.scalar != nil {
			t.Shape = o.scalar.Clone()
		}
		t.Data = t.Buffer.Bytes()
		all = append(all, t)
	}
	return all, nil
}

// takeBound copies a small tensor out of the memory of the instance.
func (in *instance) takeBound(at int, o *plannedOutput, t *tensor.Tensor) error {
	size, err := tensor.ByteSize(o.datatype, t.Shape)
	if err != nil {
		return err
	}
	if t.Buffer, err = in.memory.Allocate(int(size)); err == nil {
		copy(t.Buffer.Bytes(), in.bounds[at].memory)
	}
	return err
}

// takeOwned hands out a tensor in ONNX Runtime's memory.
func (in *instance) takeOwned(at int, o *plannedOutput, t *tensor.Tensor) error {
	e, value := in.session.env, in.outputs[at]
	var err error
	if t.Shape, err = e.shapeOf(value); err != nil {
		return err
	}
	if o.datatype == tensor.Bytes {
		elements, err := t.Shape.Elements()
		if err != nil {
			return err
		}
		t.Buffer, err = e.strings(value, int(elements), in.memory)
		return err
	}
	size, err := tensor.ByteSize(o.datatype, t.Shape)
	if err != nil {
		return err
	}
	var start uintptr
	if err := e.call(fnGetTensorMutableData, value, uintptr(unsafe.Pointer(&start))); err != nil {
		return err
	}
	data := library.Bytes(start, int(size))
	if in.isInput(start) {
		// The model hands an input through: its memory ends with the request.
		if t.Buffer, err = in.memory.Allocate(len(data)); err == nil {
			copy(t.Buffer.Bytes(), data)
		}
		return err
	}
	in.session.uses.Add(1)
	t.Buffer = tensor.NewBuffer(data, &owned{session: in.session, value: value})
	in.outputs[at] = 0 // it goes with the buffer
	return nil
}

// isInput reports whether an address lies in the memory of an input.
func (in *instance) isInput(address uintptr) bool {
	for i, t := range in.given {
		if t != nil && (liesIn(t.Data, address) || liesIn(in.boundInputs[i].memory, address)) {
			return true
		}
	}
	return false
}

func liesIn(memory []byte, address uintptr) bool {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	return address >= start && address < start+uintptr(len(memory))
}

func (in *instance) dropOutputs() {
	for at, v := range in.outputs {
		if in.bounds[at] == nil {
			in.free(v)
		}
		in.buffers[at].Release()
		in.buffers[at], in.shapes[at], in.bounds[at] = nil, nil, nil
	}
	in.outputs = in.outputs[:0]
}
