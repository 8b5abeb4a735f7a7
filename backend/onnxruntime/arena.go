package onnxruntime

import (
	"strconv"
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/library"
)

// findArena asks for what the session takes ordinary memory from. Libraries before
// 1.23 do not tell how much that is.
func (s *session) findArena() {
	if s.env.minor < allocatorStatsSince {
		return
	}
	if err := s.env.call(fnCreateAllocator, s.handle, s.env.memory, uintptr(unsafe.Pointer(&s.arena))); err != nil {
		s.arena = 0 // the statistics lack a number
	}
}

// keyAllocated is what ONNX Runtime calls the bytes that an arena has from the
// system, in use or not.
var keyAllocated = library.CString("TotalAllocated")

// HostMemory returns the bytes of the session's arena: weights, and what runs need
// in between. It may be called after the last Drop.
func (s *session) HostMemory() uint64 {
	for {
		n := s.uses.Load()
		if n == 0 || s.arena == 0 {
			return 0
		}
		if s.uses.CompareAndSwap(n, n+1) {
			break
		}
	}
	defer s.Drop()
	a := s.env.api
	var pairs uintptr
	if status := a.later(fnAllocatorGetStats, allocatorStatsSince).Call(s.arena, uintptr(unsafe.Pointer(&pairs))); status != 0 {
		_ = a.failure(status)
		return 0
	}
	defer a.later(fnReleaseKeyValuePairs, allocatorStatsSince).Call(pairs)
	text := a.later(fnGetKeyValue, allocatorStatsSince).Call(pairs, uintptr(unsafe.Pointer(keyAllocated)))
	if text == 0 { // without an arena nothing is counted
		return 0
	}
	n, _ := strconv.ParseUint(library.GoString(text), 10, 64)
	return n
}

// HostMemory implements backend.MemoryUser: what the instances share.
func (m *model) HostMemory() uint64 { return m.shared.HostMemory() }

// HostMemory implements backend.MemoryUser: a session of its own.
func (in *instance) HostMemory() uint64 {
	if in.session == in.shared {
		return 0
	}
	return in.session.HostMemory()
}
