//go:build cgo

package capi

// #include <stdint.h>
// #include "callbacks.h"
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/tensor"
)

// request is a TRITONSERVER_InferenceRequest. It is the program's until it is sent, and
// again from the release callback on.
type request struct {
	server  *server
	handle  handle.Handle
	model   string
	version int64

	mu       sync.Mutex
	inflight atomic.Bool
	flight   *flight // the present one, or the last
	id       string
	idText   object.Text

	flags       uint32
	correlation backend.CorrelationID
	textual     bool // the correlation ID is a string
	corrText    object.Text
	priority    uint64
	timeout     uint64
	parameters  []backend.Parameter
	inputs      []input
	raw         string // the sole input, whose type and shape the model knows
	outputs     []string

	release, releaseUser C.word
	respond, respondUser C.word
	allocator            *allocator
	allocatorUser        C.word
	tensors              []tensor.Tensor // of the flight
	gathered             []*tensor.Buffer
}

// input is one input with its data, in pieces that stay in the program's memory.
type input struct {
	name     string
	datatype tensor.Datatype
	shape    []int64
	pieces   [][]byte
	size     int
}

var requests = handle.NewTable[request](handle.Request)

//export TRITONSERVER_InferenceRequestNew
func TRITONSERVER_InferenceRequestNew(made, h, model C.uintptr_t, version C.int64_t) C.uintptr_t {
	if made == 0 || model == 0 {
		return C.uintptr_t(object.Null("the model's name and the place for the request"))
	}
	return ask(h, func(s *server) error {
		r := &request{server: s, model: object.String(uintptr(model)), version: int64(version)}
		if err := s.Serves(r.model, r.version); err != nil {
			return err
		}
		r.handle = requests.New(r)
		object.Set(uintptr(made), uintptr(r.handle))
		return nil
	})
}

//export TRITONSERVER_InferenceRequestDelete
func TRITONSERVER_InferenceRequestDelete(h C.uintptr_t) C.uintptr_t {
	r := requests.Get(handle.Handle(h))
	switch {
	case r == nil:
		return C.uintptr_t(object.Stale("inference request"))
	case r.inflight.Load():
		return C.uintptr_t(object.FromError(errInFlight))
	case requests.Take(handle.Handle(h)) == nil:
		return C.uintptr_t(object.Stale("inference request"))
	}
	r.idText.Free()
	r.corrText.Free()
	return 0
}

// look calls f with the request of a handle. What f returns is the error.
func look(h C.uintptr_t, f func(r *request) handle.Handle) C.uintptr_t {
	r := requests.Get(handle.Handle(h))
	if r == nil {
		return C.uintptr_t(object.Stale("inference request"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return C.uintptr_t(f(r))
}

// change is look for what the server must not see changed.
func change(h C.uintptr_t, f func(r *request) handle.Handle) C.uintptr_t {
	return look(h, func(r *request) handle.Handle {
		if r.inflight.Load() {
			return object.FromError(errInFlight)
		}
		return f(r)
	})
}

// find returns the input of a name, or the error for none.
func (r *request) find(name uintptr) (*input, handle.Handle) {
	if name == 0 {
		return nil, object.Null("the input's name")
	}
	n := object.String(name)
	for i := range r.inputs {
		if r.inputs[i].name == n {
			return &r.inputs[i], 0
		}
	}
	return nil, object.Errorf(backend.InvalidArg, r.prefix()+"input '%s' does not exist in request", n)
}

//export TRITONSERVER_InferenceRequestAddInput
func TRITONSERVER_InferenceRequestAddInput(h, name C.uintptr_t, datatype C.int, shape C.uintptr_t, dims C.uint64_t) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		switch {
		case name == 0 || shape == 0 && dims > 0:
			return object.Null("the input's name and shape")
		case dims > maxDims:
			return object.Errorf(backend.InvalidArg, "input has %d dimensions, at most %d", uint64(dims), maxDims)
		case datatype <= 0 || datatype > C.int(tensor.BF16):
			datatype = C.int(tensor.Invalid) // the check of the request says so, as the peer's
		}
		n := object.String(uintptr(name))
		if slices.ContainsFunc(r.inputs, func(i input) bool { return i.name == n }) {
			return object.Errorf(backend.InvalidArg, r.prefix()+"input '%s' already exists in request", n)
		}
		r.inputs = append(r.inputs, input{name: n, datatype: tensor.Datatype(datatype), shape: object.Int64s(uintptr(shape), uint64(dims))})
		return 0
	})
}

// maxDims bounds what a wrong count makes the server read.
const maxDims = 1024

//export TRITONSERVER_InferenceRequestAddRawInput
func TRITONSERVER_InferenceRequestAddRawInput(h, name C.uintptr_t) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		switch n := object.String(uintptr(name)); {
		case name == 0:
			return object.Null("the input's name")
		case r.raw != "":
			return object.Errorf(backend.InvalidArg, r.prefix()+"raw input '%s' can't be added to request with other inputs", n)
		case len(r.inputs) > 0:
			return object.Errorf(backend.InvalidArg, r.prefix()+"raw input '%s' can't be added to request with other inputs", n)
		default:
			r.raw = n
			r.inputs = append(r.inputs, input{name: n})
		}
		return 0
	})
}

//export TRITONSERVER_InferenceRequestRemoveInput
func TRITONSERVER_InferenceRequestRemoveInput(h, name C.uintptr_t) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		in, err := r.find(uintptr(name))
		if err != 0 {
			return err
		}
		if in.name == r.raw {
			r.raw = ""
		}
		removed := in.name
		r.inputs = slices.DeleteFunc(r.inputs, func(i input) bool { return i.name == removed })
		return 0
	})
}

//export TRITONSERVER_InferenceRequestRemoveAllInputs
func TRITONSERVER_InferenceRequestRemoveAllInputs(h C.uintptr_t) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		clear(r.inputs)
		r.inputs, r.raw = r.inputs[:0], ""
		return 0
	})
}

// appendPiece adds a piece to an input, for one host policy or, with "", for all. Those
// for policies are checked, and not needed.
func appendPiece(h, name, base C.uintptr_t, size uint64, kind C.int, policy string) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		in, err := r.find(uintptr(name))
		if err != 0 {
			return err
		}
		piece, ok := object.Bytes(uintptr(base), size)
		switch {
		case !ok:
			return object.Null("the data of input '" + in.name + "'")
		case kind < 0 || object.MemoryType(kind) > object.GPU:
			return object.Errorf(backend.InvalidArg, "unknown memory type %d of input '%s'", int(kind), in.name)
		case object.MemoryType(kind) == object.GPU:
			return object.Errorf(backend.Unsupported, "data of input '%s' lies on a GPU: it must be copied to the machine's memory", in.name)
		case policy == "" && size > 0:
			in.pieces = append(in.pieces, piece)
			in.size += len(piece)
		}
		return 0
	})
}

//export TRITONSERVER_InferenceRequestAppendInputData
func TRITONSERVER_InferenceRequestAppendInputData(h, name, base C.uintptr_t, size C.size_t, kind C.int, _ C.int64_t) C.uintptr_t {
	return appendPiece(h, name, base, uint64(size), kind, "")
}

//export TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy
func TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(h, name, base C.uintptr_t, size C.size_t, kind C.int, _ C.int64_t,
	policy C.uintptr_t,
) C.uintptr_t {
	return appendPiece(h, name, base, uint64(size), kind, object.String(uintptr(policy)))
}

//export TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes
func TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(h, name, base, attributes C.uintptr_t) C.uintptr_t {
	m, ok := object.Attributes(handle.Handle(attributes))
	if !ok {
		return C.uintptr_t(object.Stale("buffer attributes"))
	}
	return appendPiece(h, name, base, m.Size, C.int(m.Type), "")
}

//export TRITONSERVER_InferenceRequestRemoveAllInputData
func TRITONSERVER_InferenceRequestRemoveAllInputData(h, name C.uintptr_t) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		in, err := r.find(uintptr(name))
		if err == 0 {
			clear(in.pieces)
			in.pieces, in.size = in.pieces[:0], 0
		}
		return err
	})
}

//export TRITONSERVER_InferenceRequestSetReleaseCallback
func TRITONSERVER_InferenceRequestSetReleaseCallback(h, release, userp C.uintptr_t) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		r.release, r.releaseUser = release, userp
		return 0
	})
}

//export TRITONSERVER_InferenceRequestSetResponseCallback
func TRITONSERVER_InferenceRequestSetResponseCallback(h, alloc, allocUser, respond, respondUser C.uintptr_t) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		a := allocators.Get(handle.Handle(alloc))
		if a == nil {
			return object.Stale("response allocator")
		}
		r.allocator, r.allocatorUser = a, allocUser
		r.respond, r.respondUser = respond, respondUser
		return 0
	})
}
