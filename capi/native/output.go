//go:build cgo

package native

// #include <stdlib.h>
// #include "loader.h"
import "C"

import (
	"slices"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/tensor"
)

// output is a TRITONBACKEND_Output, which lives as long as its response.
type output struct {
	tensor.Tensor
	handle     handle.Handle
	response   *response
	block      *host.Block
	size       int            // of its buffer
	memory     backend.Memory // where that lies
	shape      uintptr        // of C
	attributes buffers
}

var outputs = handle.NewTable[output](kindOutput)

func (o *output) free() {
	outputs.Take(o.handle)
	o.attributes.free()
	object.FreeText(o.shape)
}

// output returns the name of an output; those of the configuration need no copy.
func (in *instance) output(name C.uintptr_t) string {
	for _, known := range in.outputs {
		if object.Equal(uintptr(name), known) {
			return known
		}
	}
	return object.String(uintptr(name))
}

// newTensor checks what the library says of a tensor that it makes.
func (in *instance) newTensor(name C.uintptr_t, datatype C.int, shape C.uintptr_t, dims C.uint32_t) (tensor.Tensor, error) {
	t := tensor.Tensor{Name: in.output(name), Shape: tensor.Shape(object.Int64s(uintptr(shape), uint64(dims)))}
	if datatype > 0 && datatype < 256 {
		t.Datatype = tensor.Datatype(datatype)
	}
	if !t.Datatype.Valid() {
		return t, backend.Errorf(backend.InvalidArg, "datatype %d of output '%s' is unknown", datatype, t.Name)
	}
	if dims > 255 {
		return t, backend.Errorf(backend.InvalidArg, "output '%s' has %d dimensions, at most 255 are supported", t.Name, dims)
	}
	if t.Shape == nil {
		t.Shape = tensor.Shape{}
	}
	for _, d := range t.Shape {
		if d < 0 {
			return t, backend.Errorf(backend.InvalidArg, "shape %s of output '%s' has a negative dimension", t.Shape, t.Name)
		}
	}
	_, err := tensor.ByteSize(t.Datatype, t.Shape)
	return t, err
}

//export TRITONBACKEND_ResponseOutput
func TRITONBACKEND_ResponseOutput(h, to, name C.uintptr_t, datatype C.int, shape C.uintptr_t, dims C.uint32_t) C.uintptr_t {
	return responseOf(h, func(p *response) C.uintptr_t {
		t, err := p.request.instance.newTensor(name, datatype, shape, dims)
		if err != nil {
			return result(err)
		}
		if in := p.request.instance; !slices.Contains(in.outputs, t.Name) {
			return errorf(backend.InvalidArg, "unexpected inference output '%s' for model '%s'", t.Name, in.model.cfg.Name)
		}
		for _, o := range p.outputs {
			if o.Name == t.Name {
				return errorf(backend.InvalidArg, "the response has output '%s' already", t.Name)
			}
		}
		o := &p.first
		if len(p.outputs) > 0 {
			o = &output{}
		}
		o.Tensor, o.response = t, p
		o.handle = outputs.New(o)
		p.outputs = append(p.outputs, o)
		put(to, o.handle)
		return 0
	})
}

func outputOf(h C.uintptr_t, f func(o *output) C.uintptr_t) C.uintptr_t {
	o := outputs.Get(handle.Handle(h))
	if o == nil {
		return stale("the output")
	}
	return f(o)
}

const mostOutput = 1 << 46 // nobody has more bytes

func tooLarge(name string, size C.uint64_t) error {
	return backend.Errorf(backend.InvalidArg, "output '%s' is to have %d bytes", name, size)
}

// allocate gives memory for a tensor that the library makes.
func (in *instance) allocate(name string, size C.uint64_t) (*host.Block, error) {
	if size > mostOutput {
		return nil, tooLarge(name, size)
	}
	block, err := in.server.Allocate(int(size))
	if err != nil {
		return nil, backend.Errorf(backend.Unavailable, "output '%s': %v", name, err)
	}
	return block, nil
}

// place puts where memory is, and which.
func place(block *host.Block, buffer, kind, id C.uintptr_t) {
	put(buffer, uintptr(unsafe.Pointer(unsafe.SliceData(block.Data()))))
	put(kind, memoryCPU)
	put[int64](id, 0)
}

//export TRITONBACKEND_OutputBuffer
func TRITONBACKEND_OutputBuffer(h, buffer C.uintptr_t, size C.uint64_t, kind, id C.uintptr_t) C.uintptr_t {
	return outputOf(h, func(o *output) C.uintptr_t {
		if o.block != nil {
			return errorf(backend.AlreadyExists, "allocated buffer for output '%s' already exists", o.Name)
		}
		if by := o.response.request.sender; by != nil {
			return result(o.given(by, buffer, size, kind, id))
		}
		block, err := o.response.request.instance.allocate(o.Name, size)
		if err != nil {
			return result(err)
		}
		o.block, o.size = block, int(size)
		place(block, buffer, kind, id)
		return 0
	})
}

// wanted is the memory that a library prefers.
func wanted(kind, id C.uintptr_t) (m backend.Memory) {
	if kind != 0 {
		m.Type = backend.MemoryType(object.Read[C.int](uintptr(kind)))
	}
	if id != 0 {
		m.ID = object.Read[int64](uintptr(id))
	}
	return m
}

// given has memory of the program that sent the request for the output.
func (o *output) given(by backend.Sender, buffer C.uintptr_t, size C.uint64_t, kind, id C.uintptr_t) error {
	if size > mostOutput {
		return tooLarge(o.Name, size)
	}
	b, at, err := by.AllocateOutput(o.Name, int(size), wanted(kind, id))
	if err != nil {
		return err
	}
	if o.Datatype == tensor.Bytes && at.Type == backend.GPUMemory {
		b.Release()
		return backend.Errorf(backend.Unsupported, "output '%s' has strings, which do not lie on a GPU", o.Name)
	}
	o.block, o.size, o.memory = o.response.request.instance.server.Give(b), int(size), at
	put(buffer, uintptr(b.Region().Offset))
	put(kind, C.int(at.Type))
	put(id, at.ID)
	return nil
}

//export TRITONBACKEND_OutputBufferAttributes
func TRITONBACKEND_OutputBufferAttributes(h, to C.uintptr_t) C.uintptr_t {
	return outputOf(h, func(o *output) C.uintptr_t {
		if o.block == nil {
			return errorf(backend.InvalidArg, "output '%s' has no buffer yet", o.Name)
		}
		return o.attributes.putAt(to, o.size, o.memory)
	})
}

func (o *output) read(name, datatype, shape, dims C.uintptr_t) C.uintptr_t {
	if o.shape == 0 {
		o.shape = uintptr(C.malloc(C.size_t(8 * max(1, len(o.Shape)))))
		copy(unsafe.Slice((*int64)(at(o.shape)), len(o.Shape)), o.Shape)
	}
	put(name, o.response.request.instance.model.named(o.Name))
	put(datatype, C.int(o.Datatype))
	put(shape, o.shape)
	put(dims, uint64(len(o.Shape)))
	return 0
}

//export TRITONBACKEND_InferenceResponseOutput
func TRITONBACKEND_InferenceResponseOutput(h C.uintptr_t, index C.uint32_t, name, datatype, shape, dims C.uintptr_t) C.uintptr_t {
	return responseOf(h, func(p *response) C.uintptr_t {
		if int(index) >= len(p.outputs) {
			return errorf(backend.InvalidArg, "out of bounds index %d: response has %d outputs", index, len(p.outputs))
		}
		return p.outputs[index].read(name, datatype, shape, dims)
	})
}

//export TRITONBACKEND_InferenceResponseOutputByName
func TRITONBACKEND_InferenceResponseOutputByName(h, name, datatype, shape, dims C.uintptr_t) C.uintptr_t {
	return responseOf(h, func(p *response) C.uintptr_t {
		wanted := object.String(uintptr(name))
		for _, o := range p.outputs {
			if o.Name == wanted {
				return o.read(0, datatype, shape, dims)
			}
		}
		return errorf(backend.NotFound, "Output name %s not found.", wanted)
	})
}
