//go:build cgo

package capi

// #include <stdint.h>
// #include "callbacks.h"
import "C"

import (
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// allocator is a TRITONSERVER_ResponseAllocator: functions of the program that give
// memory for outputs.
type allocator struct {
	handle             C.word
	alloc, free, start C.word
	query, attributes  atomic.Uintptr
}

var allocators = handle.NewTable[allocator](handle.Allocator)

//export TRITONSERVER_ResponseAllocatorNew
func TRITONSERVER_ResponseAllocatorNew(made, alloc, free, start C.uintptr_t) C.uintptr_t {
	if made == 0 || alloc == 0 || free == 0 {
		return C.uintptr_t(object.Null("the place for the allocator, and its functions,"))
	}
	a := &allocator{alloc: alloc, free: free, start: start}
	a.handle = C.word(allocators.New(a))
	object.Set(uintptr(made), uintptr(a.handle))
	return 0
}

//export TRITONSERVER_ResponseAllocatorSetQueryFunction
func TRITONSERVER_ResponseAllocatorSetQueryFunction(h, query C.uintptr_t) C.uintptr_t {
	a := allocators.Get(handle.Handle(h))
	if a == nil {
		return C.uintptr_t(object.Stale("response allocator"))
	}
	a.query.Store(uintptr(query))
	return 0
}

//export TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction
func TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(h, attributes C.uintptr_t) C.uintptr_t {
	a := allocators.Get(handle.Handle(h))
	if a == nil {
		return C.uintptr_t(object.Stale("response allocator"))
	}
	a.attributes.Store(uintptr(attributes))
	return 0
}

//export TRITONSERVER_ResponseAllocatorDelete
func TRITONSERVER_ResponseAllocatorDelete(h C.uintptr_t) C.uintptr_t {
	if allocators.Take(handle.Handle(h)) == nil {
		return C.uintptr_t(object.Stale("response allocator"))
	}
	return 0
}

// begin says that the outputs of a response follow.
func (a *allocator) begin(userp C.word) *backend.Error {
	if a.start == 0 {
		return nil
	}
	return object.TakeError(handle.Handle(C.call_start(a.start, a.handle, userp)))
}

// allocate asks for memory for an output whose name lies at name, where it prefers to lie.
func (a *allocator) allocate(o *output, name uintptr, size int, prefers backend.Memory, userp C.word) *backend.Error {
	o.at = C.allocation{_type: C.int(prefers.Type), id: C.int64_t(prefers.ID)}
	o.size, o.given = size, false
	if err := object.TakeError(handle.Handle(C.call_alloc(a.alloc, a.handle, C.word(name), C.size_t(size), userp, &o.at))); err != nil {
		return err
	}
	o.given = true
	if o.at.buffer == 0 && size > 0 {
		return backend.Errorf(backend.Internal, "the response allocator gave no memory for output '%s'", o.name)
	}
	f := C.word(a.attributes.Load())
	if f == 0 {
		return nil
	}
	where := object.NewAttributes(object.Memory{Type: object.MemoryType(o.at._type), TypeID: int64(o.at.id)})
	o.attributes = where
	return object.TakeError(handle.Handle(C.call_attributes(f, a.handle, C.word(name), C.word(where), userp, o.at.userp)))
}

// release gives the memory of an output back, if it is any: an output without elements
// may have got none.
func (a *allocator) release(o *output) {
	if !o.given {
		return
	}
	o.given = false
	object.DeleteAttributes(o.attributes)
	if o.at.buffer == 0 {
		return
	}
	err := object.TakeError(handle.Handle(C.call_free(a.free, a.handle, o.at.buffer, o.at.userp, C.size_t(o.size), o.at._type, o.at.id)))
	if err != nil {
		processLog().Logger().Error("the response allocator failed to release memory", "output", o.name, "error", err.Message)
	}
}
