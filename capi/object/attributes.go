//go:build cgo

package object

// #include <stdint.h>
import "C"

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
)

// MemoryType is a TRITONSERVER_MemoryType.
type MemoryType int32

// The types of memory.
const (
	CPU MemoryType = iota
	Pinned
	GPU
)

// Memory says where a piece of memory lies.
type Memory struct {
	Type   MemoryType
	TypeID int64
	Size   uint64
	IPC    uintptr // a cudaIpcMemHandle_t in memory of C, or 0
}

// ipcSize is that of a cudaIpcMemHandle_t.
const ipcSize = 64

// attributes is a TRITONSERVER_BufferAttributes.
type attributes struct {
	mu sync.Mutex
	Memory
	ipc uintptr // of C: the copy of what the program has set
}

// free ends what the object has.
func (a *attributes) free() {
	a.mu.Lock()
	defer a.mu.Unlock()
	FreeText(a.ipc)
	a.ipc = 0
}

var buffers = handle.NewTable[attributes](handle.BufferAttributes)

// NewAttributes returns a TRITONSERVER_BufferAttributes that its receiver owns.
func NewAttributes(m Memory) handle.Handle { return buffers.New(&attributes{Memory: m}) }

// DeleteAttributes ends one.
func DeleteAttributes(h handle.Handle) {
	if a := buffers.Take(h); a != nil {
		a.free()
	}
}

// Attributes returns what they say; false for a handle of none.
func Attributes(h handle.Handle) (Memory, bool) {
	a := buffers.Get(h)
	if a == nil {
		return Memory{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Memory, true
}

// SetAttributes replaces what they say; false for a handle of none.
func SetAttributes(h handle.Handle, m Memory) bool {
	a := buffers.Get(h)
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Memory = m
	return true
}

// change calls f with the attributes of a handle.
func change(h C.uintptr_t, f func(m *Memory)) C.uintptr_t {
	a := buffers.Get(handle.Handle(h))
	if a == nil {
		return C.uintptr_t(Stale("buffer attributes"))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.Memory)
	return 0
}

//export TRITONSERVER_BufferAttributesNew
func TRITONSERVER_BufferAttributesNew(made C.uintptr_t) C.uintptr_t {
	if made == 0 {
		return C.uintptr_t(Null("the place for the buffer attributes"))
	}
	Set(uintptr(made), uintptr(NewAttributes(Memory{})))
	return 0
}

//export TRITONSERVER_BufferAttributesDelete
func TRITONSERVER_BufferAttributesDelete(h C.uintptr_t) C.uintptr_t {
	a := buffers.Take(handle.Handle(h))
	if a == nil {
		return C.uintptr_t(Stale("buffer attributes"))
	}
	a.free()
	return 0
}

//export TRITONSERVER_BufferAttributesSetMemoryTypeId
func TRITONSERVER_BufferAttributesSetMemoryTypeId(h C.uintptr_t, id C.int64_t) C.uintptr_t {
	return change(h, func(m *Memory) { m.TypeID = int64(id) })
}

//export TRITONSERVER_BufferAttributesSetMemoryType
func TRITONSERVER_BufferAttributesSetMemoryType(h C.uintptr_t, kind C.int) C.uintptr_t {
	if kind < 0 || MemoryType(kind) > GPU {
		return C.uintptr_t(Errorf(backend.InvalidArg, "unknown memory type %d", int(kind)))
	}
	return change(h, func(m *Memory) { m.Type = MemoryType(kind) })
}

//export TRITONSERVER_BufferAttributesSetCudaIpcHandle
func TRITONSERVER_BufferAttributesSetCudaIpcHandle(h, ipc C.uintptr_t) C.uintptr_t {
	a := buffers.Get(handle.Handle(h))
	if a == nil {
		return C.uintptr_t(Stale("buffer attributes"))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	FreeText(a.ipc)
	a.ipc = 0
	if b, _ := Bytes(uintptr(ipc), ipcSize); b != nil {
		a.ipc = NewText(string(b))
	}
	a.IPC = a.ipc
	return 0
}

//export TRITONSERVER_BufferAttributesSetByteSize
func TRITONSERVER_BufferAttributesSetByteSize(h C.uintptr_t, size C.size_t) C.uintptr_t {
	return change(h, func(m *Memory) { m.Size = uint64(size) })
}

//export TRITONSERVER_BufferAttributesMemoryTypeId
func TRITONSERVER_BufferAttributesMemoryTypeId(h, id C.uintptr_t) C.uintptr_t {
	return change(h, func(m *Memory) { Set(uintptr(id), m.TypeID) })
}

//export TRITONSERVER_BufferAttributesMemoryType
func TRITONSERVER_BufferAttributesMemoryType(h, kind C.uintptr_t) C.uintptr_t {
	return change(h, func(m *Memory) { Set(uintptr(kind), C.int(m.Type)) })
}

//export TRITONSERVER_BufferAttributesCudaIpcHandle
func TRITONSERVER_BufferAttributesCudaIpcHandle(h, ipc C.uintptr_t) C.uintptr_t {
	return change(h, func(m *Memory) { Set(uintptr(ipc), m.IPC) })
}

//export TRITONSERVER_BufferAttributesByteSize
func TRITONSERVER_BufferAttributesByteSize(h, size C.uintptr_t) C.uintptr_t {
	return change(h, func(m *Memory) { Set(uintptr(size), C.size_t(m.Size)) })
}
