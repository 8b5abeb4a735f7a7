//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/tensor"
)

// state is a TRITONBACKEND_State, a tensor that the sequence keeps. It lives as long
// as its request, and goes to the server with the next response, as an output does.
type state struct {
	tensor.Tensor
	handle     handle.Handle
	request    *request
	block      *host.Block
	updated    bool
	attributes buffers
}

var states = handle.NewTable[state](kindState)

func (s *state) free() {
	states.Take(s.handle)
	s.attributes.free()
	s.block.Free()
	s.block = nil
}

//export TRITONBACKEND_StateNew
func TRITONBACKEND_StateNew(to, h, name C.uintptr_t, datatype C.int, shape C.uintptr_t, dims C.uint32_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		t, err := r.instance.newTensor(name, datatype, shape, dims)
		if err != nil {
			return result(err)
		}
		if !slices.Contains(r.instance.states, t.Name) {
			if len(r.instance.states) > 0 {
				return errorf(backend.InvalidArg, "state '%s' is not a valid state name.", t.Name)
			}
			return errorf(backend.InvalidArg, "unable to add state '%s'. State configuration is missing for model '%s'.", t.Name,
				r.instance.model.cfg.Name)
		}
		s := &state{Tensor: t, request: r}
		s.handle = states.New(s)
		r.mu.Lock()
		r.states = append(r.states, s)
		r.mu.Unlock()
		put(to, s.handle)
		return 0
	})
}

func stateOf(h C.uintptr_t, f func(s *state) C.uintptr_t) C.uintptr_t {
	s := states.Get(handle.Handle(h))
	if s == nil {
		return stale("the state")
	}
	return f(s)
}

//export TRITONBACKEND_StateBuffer
func TRITONBACKEND_StateBuffer(h, buffer C.uintptr_t, size C.uint64_t, kind, id C.uintptr_t) C.uintptr_t {
	return stateOf(h, func(s *state) C.uintptr_t {
		want, err := tensor.ByteSize(s.Datatype, s.Shape)
		if err == nil && s.Datatype != tensor.Bytes && int64(size) != want {
			err = backend.Errorf(backend.InvalidArg, "state '%s' has %d bytes, its datatype %s and shape %s take %d", s.Name, size, s.Datatype,
				s.Shape, want)
		}
		if err != nil {
			return result(err)
		}
		s.request.mu.Lock()
		defer s.request.mu.Unlock()
		if s.block == nil || len(s.block.Data()) != int(size) { // else it is what was written there
			block, err := s.request.instance.allocate(s.Name, size)
			if err != nil {
				return result(err)
			}
			s.block.Free()
			s.block = block
		}
		place(s.block, buffer, kind, id)
		return 0
	})
}

//export TRITONBACKEND_StateBufferAttributes
func TRITONBACKEND_StateBufferAttributes(h, to C.uintptr_t) C.uintptr_t {
	return stateOf(h, func(s *state) C.uintptr_t {
		s.request.mu.Lock()
		defer s.request.mu.Unlock()
		if s.block == nil {
			return errorf(backend.InvalidArg, "state '%s' has no buffer yet", s.Name)
		}
		return s.attributes.put(to, len(s.block.Data()))
	})
}

//export TRITONBACKEND_StateUpdate
func TRITONBACKEND_StateUpdate(h C.uintptr_t) C.uintptr_t {
	return stateOf(h, func(s *state) C.uintptr_t {
		s.request.mu.Lock()
		defer s.request.mu.Unlock()
		if s.block != nil && s.block.Check() != nil {
			return result(s.request.instance.model.library.misuse("it wrote beyond the %d bytes of state '%s'", len(s.block.Data()), s.Name))
		}
		s.updated = true
		return 0
	})
}
