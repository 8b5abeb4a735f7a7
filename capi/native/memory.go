//go:build cgo

package native

// #include <stdlib.h>
// #include "loader.h"
import "C"

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// The types of memory.
const (
	memoryCPU C.int = iota
	memoryPinned
	memoryGPU
)

//export TRITONBACKEND_MemoryManagerAllocate
func TRITONBACKEND_MemoryManagerAllocate(m, buffer C.uintptr_t, kind C.int, id C.int64_t, size C.uint64_t) C.uintptr_t {
	switch {
	case managers.Get(handle.Handle(m)) == nil:
		return stale("the memory manager")
	case kind == memoryPinned:
		return errorf(backend.Unavailable, "failed to allocate pinned system memory")
	case kind == memoryGPU:
		return errorf(backend.Unsupported, "the memory manager gives no memory on GPU %d", id)
	case kind != memoryCPU:
		return errorf(backend.InvalidArg, "memory type %d is unknown", kind)
	}
	p := C.malloc(max(size, 1))
	if p == nil {
		return errorf(backend.Unavailable, "failed to allocate %d bytes", size)
	}
	put(buffer, uintptr(p))
	return 0
}

//export TRITONBACKEND_MemoryManagerFree
func TRITONBACKEND_MemoryManagerFree(m, buffer C.uintptr_t, kind C.int, _ C.int64_t) C.uintptr_t {
	switch {
	case managers.Get(handle.Handle(m)) == nil:
		return stale("the memory manager")
	case kind != memoryCPU:
		return errorf(backend.InvalidArg, "the memory was not allocated with this type")
	}
	C.free(at(uintptr(buffer)))
	return 0
}

// buffers are the TRITONSERVER_BufferAttributes of an object, made when first asked
// for.
type buffers struct{ made handle.Handle }

func (b *buffers) put(to C.uintptr_t, size int) C.uintptr_t {
	return b.putAt(to, size, backend.Memory{})
}

func (b *buffers) putAt(to C.uintptr_t, size int, at backend.Memory) C.uintptr_t {
	if b.made == 0 {
		b.made = object.NewAttributes(object.Memory{Type: object.MemoryType(at.Type), TypeID: at.ID, Size: uint64(size)})
	}
	put(to, b.made)
	return 0
}

func (b *buffers) free() {
	object.DeleteAttributes(b.made)
	b.made = 0
}

// owned is a TRITONSERVER_Message that is the library's to read alone. One that it deletes
// all the same is made anew.
type owned struct {
	mu   sync.Mutex
	made handle.Handle
}

func (o *owned) put(to C.uintptr_t, json string) C.uintptr_t {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := object.MessageText(o.made); !there {
		o.made = object.NewMessage([]byte(json))
	}
	put(to, o.made)
	return 0
}

func (o *owned) free() {
	o.mu.Lock()
	defer o.mu.Unlock()
	object.DeleteMessage(o.made)
	o.made = 0
}

// message puts a new TRITONSERVER_Message of a JSON text.
func message(to C.uintptr_t, json string) C.uintptr_t {
	put(to, object.NewMessage([]byte(json)))
	return 0
}
