//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"encoding/json"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/tensor"
)

// input is a TRITONBACKEND_Input, which lives as long as its request. Its data lies
// in one piece, where the server has it or, where it came with the frame, in memory of
// the request; or in the pieces in which a program of this process has it.
type input struct {
	handle      handle.Handle
	request     *request
	tensor      *tensor.Tensor
	name        uintptr // of C, like data and shape
	data, shape uintptr
	dims        uint32 // of shape
	attributes  buffers
	pieces      *pieces // nil for an input in one piece
}

var inputs = handle.NewTable[input](kindInput)

func (i *input) free() {
	if i.handle != 0 {
		i.hide()
		inputs.Take(i.handle)
		i.attributes.free()
	}
	i.pieces.free()
}

// known returns the handle of an input, which the library has from now on.
func (i *input) known() handle.Handle {
	r := i.request
	r.mu.Lock()
	defer r.mu.Unlock()
	if i.handle == 0 {
		i.handle = inputs.New(i)
	}
	return i.handle
}

func inputOf(h C.uintptr_t, f func(i *input) C.uintptr_t) C.uintptr_t {
	i := inputs.Get(handle.Handle(h))
	if i == nil {
		return stale("the input")
	}
	return f(i)
}

//export neso_asked_TRITONBACKEND_RequestInputCount
func neso_asked_TRITONBACKEND_RequestInputCount(h, count C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t { put(count, uint32(len(r.inputs))); return 0 })
}

//export neso_asked_TRITONBACKEND_RequestInputName
func neso_asked_TRITONBACKEND_RequestInputName(h C.uintptr_t, index C.uint32_t, name C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		if err := r.within(index); err != 0 {
			return err
		}
		put(name, r.inputs[index].name)
		return 0
	})
}

func (r *request) within(index C.uint32_t) C.uintptr_t {
	if int(index) >= len(r.inputs) {
		return errorf(backend.InvalidArg, "%sout of bounds index %d: request has %d inputs", r.prefix(), index, len(r.inputs))
	}
	return 0
}

//export neso_asked_TRITONBACKEND_RequestInput
func neso_asked_TRITONBACKEND_RequestInput(h, name, to C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		wanted := object.String(uintptr(name))
		for k := range r.inputs {
			if r.of.Inputs[k].Name == wanted {
				put(to, r.inputs[k].known())
				return 0
			}
		}
		put[uintptr](to, 0)
		return errorf(backend.InvalidArg, "%sunknown request input name %s", r.prefix(), wanted)
	})
}

//export neso_asked_TRITONBACKEND_RequestInputByIndex
func neso_asked_TRITONBACKEND_RequestInputByIndex(h C.uintptr_t, index C.uint32_t, to C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		if err := r.within(index); err != 0 {
			return err
		}
		put(to, r.inputs[index].known())
		return 0
	})
}

// describe writes the shape of the input down, and returns how many bytes that takes. A
// shape tensor has no batch dimension; for a library of a model that batches it has one, as
// in Triton, though its bytes are those of one request.
func (i *input) describe(place uintptr, isShape bool, batchSize int) uintptr {
	shape := i.tensor.Shape
	i.shape, i.dims = place, uint32(len(shape))
	if isShape {
		i.dims++
	}
	to := unsafe.Slice((*int64)(at(place)), i.dims)
	if isShape {
		to[0] = int64(max(1, batchSize))
		to = to[1:]
	}
	copy(to, shape)
	return uintptr(8 * i.dims)
}

// shapeTensors are the inputs of a configuration whose values are shapes, where it batches.
func shapeTensors(config []byte) (names map[string]bool) {
	var c struct {
		Batch int `json:"max_batch_size"`
		Input []struct {
			Name  string `json:"name"`
			Shape bool   `json:"is_shape_tensor"`
		} `json:"input"`
	}
	_ = json.Unmarshal(config, &c) // it is the server's own
	for _, in := range c.Input {
		if in.Shape && c.Batch > 0 {
			if names == nil {
				names = map[string]bool{}
			}
			names[in.Name] = true
		}
	}
	return names
}

// count is how many buffers the input has, and piece one of them.
func (i *input) count() uint32 {
	switch {
	case i.pieces != nil:
		return uint32(len(i.pieces.list))
	case len(i.tensor.Data) == 0:
		return 0
	}
	return 1
}

func (i *input) piece(k uint32) (at uintptr, size int) {
	if i.pieces != nil {
		p := i.pieces.list[k]
		return uintptr(unsafe.Pointer(unsafe.SliceData(p))), len(p)
	}
	return i.data, len(i.tensor.Data)
}

//export neso_asked_TRITONBACKEND_InputProperties
func neso_asked_TRITONBACKEND_InputProperties(h, name, datatype, shape, dims, size, count C.uintptr_t) C.uintptr_t {
	return inputOf(h, func(i *input) C.uintptr_t {
		put(name, i.name)
		put(datatype, C.int(i.tensor.Datatype))
		put(shape, i.shape)
		put(dims, i.dims)
		put(size, uint64(len(i.tensor.Data)))
		put(count, i.count())
		return 0
	})
}

// A piece behind the last one is null and has no bytes, which is no error: libraries
// ask for the first one of an input without elements.
//
//export neso_asked_TRITONBACKEND_InputBuffer
func neso_asked_TRITONBACKEND_InputBuffer(h C.uintptr_t, index C.uint32_t, buffer, size, kind, id C.uintptr_t) C.uintptr_t {
	return inputOf(h, func(i *input) C.uintptr_t {
		if uint32(index) < i.count() {
			at, n := i.piece(uint32(index))
			put(buffer, at)
			put(size, uint64(n))
		} else {
			put[uintptr](buffer, 0)
			put[uint64](size, 0)
		}
		put(kind, memoryCPU)
		put[int64](id, 0)
		return 0
	})
}

//export TRITONBACKEND_InputBufferAttributes
func TRITONBACKEND_InputBufferAttributes(h C.uintptr_t, index C.uint32_t, buffer, attributes C.uintptr_t) C.uintptr_t {
	return inputOf(h, func(i *input) C.uintptr_t {
		if err := neso_asked_TRITONBACKEND_InputBuffer(h, index, buffer, 0, 0, 0); err != 0 {
			return err
		}
		if uint32(index) >= i.count() {
			put[uintptr](attributes, 0)
			return 0
		}
		i.request.mu.Lock()
		defer i.request.mu.Unlock()
		_, n := i.piece(uint32(index))
		return i.attributesOf(uint32(index)).put(attributes, n)
	})
}
