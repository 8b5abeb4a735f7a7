//go:build cgo

package cache

// #include <stdint.h>
import "C"

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

const (
	kindEntry = handle.CacheKinds + iota
	kindAllocator
)

// An allocator is that of its entry: both live as long as a call of the library.
var (
	entries    = handle.NewTable[entry](kindEntry)
	allocators = handle.NewTable[entry](kindAllocator)
)

// maxBuffers bounds what a library may add to an entry.
const maxBuffers = 1 << 16

// entry is a TRITONCACHE_CacheEntry. That of an insertion has a buffer without memory,
// which the library is to give; that of a look-up gets buffers from the library.
type entry struct {
	insert bool
	value  []byte                         // of an insertion
	give   func(size int) ([]byte, error) // of a look-up

	mu      sync.Mutex // a library may call from threads of its own
	buffers []buffer
	copied  bool
}

// buffer is a piece of the library's memory.
type buffer struct {
	base uintptr
	size uint64
}

const nothing = "entry, base, or attrs was nullptr"

func errorf(code backend.Code, format string, args ...any) C.uintptr_t {
	return C.uintptr_t(object.Errorf(code, format, args...))
}

// entryOf calls f, under the lock of the entry, with the entry of a handle.
func entryOf(h C.uintptr_t, f func(e *entry) C.uintptr_t) C.uintptr_t {
	e := entries.Get(handle.Handle(h))
	switch {
	case h == 0:
		return errorf(backend.InvalidArg, nothing)
	case e == nil:
		return C.uintptr_t(object.Stale("the cache entry"))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return f(e)
}

//export TRITONCACHE_CacheEntryNew
func TRITONCACHE_CacheEntryNew(made C.uintptr_t) C.uintptr_t {
	if made == 0 {
		return C.uintptr_t(object.Null("the place for the cache entry"))
	}
	object.Set(uintptr(made), uintptr(entries.New(&entry{})))
	return 0
}

//export TRITONCACHE_CacheEntryDelete
func TRITONCACHE_CacheEntryDelete(h C.uintptr_t) C.uintptr_t {
	e := entries.Get(handle.Handle(h))
	switch {
	case e == nil:
		return C.uintptr_t(object.Stale("the cache entry"))
	case e.insert || e.give != nil:
		return errorf(backend.InvalidArg, "the cache entry is the server's")
	}
	entries.Take(handle.Handle(h))
	return 0
}

//export TRITONCACHE_CacheEntryBufferCount
func TRITONCACHE_CacheEntryBufferCount(h, count C.uintptr_t) C.uintptr_t {
	if count == 0 {
		return C.uintptr_t(object.Null("the place for the count"))
	}
	return entryOf(h, func(e *entry) C.uintptr_t {
		object.Set(uintptr(count), C.size_t(len(e.buffers)))
		return 0
	})
}

//export TRITONCACHE_CacheEntryAddBuffer
func TRITONCACHE_CacheEntryAddBuffer(h, base, attributes C.uintptr_t) C.uintptr_t {
	if base == 0 || attributes == 0 {
		return errorf(backend.InvalidArg, nothing)
	}
	m, code := hostMemory(attributes)
	if code != 0 {
		return code
	}
	return entryOf(h, func(e *entry) C.uintptr_t {
		if len(e.buffers) >= maxBuffers {
			return errorf(backend.InvalidArg, "the cache entry has %d buffers already", len(e.buffers))
		}
		e.buffers = append(e.buffers, buffer{uintptr(base), m.Size})
		return 0
	})
}

// hostMemory returns what attributes say of memory that the server can read.
func hostMemory(attributes C.uintptr_t) (m object.Memory, code C.uintptr_t) {
	m, ok := object.Attributes(handle.Handle(attributes))
	switch {
	case !ok:
		return m, C.uintptr_t(object.Stale("buffer attributes"))
	case m.Type == object.GPU:
		return m, errorf(backend.InvalidArg, "Only buffers in CPU memory are allowed in cache currently")
	}
	return m, 0
}

// at calls f with a buffer of an entry.
func at(h C.uintptr_t, index C.size_t, f func(b *buffer) C.uintptr_t) C.uintptr_t {
	return entryOf(h, func(e *entry) C.uintptr_t {
		if uint64(index) >= uint64(len(e.buffers)) {
			return errorf(backend.InvalidArg, "index was greater than count")
		}
		return f(&e.buffers[index])
	})
}

//export TRITONCACHE_CacheEntryGetBuffer
func TRITONCACHE_CacheEntryGetBuffer(h C.uintptr_t, index C.size_t, base, attributes C.uintptr_t) C.uintptr_t {
	if base == 0 || attributes == 0 {
		return errorf(backend.InvalidArg, nothing)
	}
	return at(h, index, func(b *buffer) C.uintptr_t {
		if !object.SetAttributes(handle.Handle(attributes), object.Memory{Size: b.size}) {
			return C.uintptr_t(object.Stale("buffer attributes"))
		}
		object.Set(uintptr(base), b.base)
		return 0
	})
}

//export TRITONCACHE_CacheEntrySetBuffer
func TRITONCACHE_CacheEntrySetBuffer(h C.uintptr_t, index C.size_t, base, attributes C.uintptr_t) C.uintptr_t {
	var m object.Memory
	if attributes != 0 {
		var code C.uintptr_t
		if m, code = hostMemory(attributes); code != 0 {
			return code
		}
	}
	return at(h, index, func(b *buffer) C.uintptr_t {
		b.base = uintptr(base)
		if attributes != 0 {
			b.size = m.Size
		}
		return 0
	})
}

//export TRITONCACHE_Copy
func TRITONCACHE_Copy(allocator, h C.uintptr_t) C.uintptr_t {
	a := allocators.Get(handle.Handle(allocator))
	switch {
	case allocator == 0 || h == 0:
		return errorf(backend.InvalidArg, "allocator or entry was nullptr")
	case a == nil:
		return C.uintptr_t(object.Stale("the cache allocator"))
	}
	return entryOf(h, func(e *entry) C.uintptr_t {
		if a != e {
			return errorf(backend.InvalidArg, "the allocator belongs to another cache entry")
		}
		return C.uintptr_t(object.FromError(e.copyLocked()))
	})
}

// copyLocked brings a value to the memory of the library, or from there.
func (e *entry) copyLocked() error {
	if len(e.buffers) != 1 {
		return backend.Errorf(backend.InvalidArg, "the cache entry has %d buffers, expected 1", len(e.buffers))
	}
	b := e.buffers[0]
	size := b.size
	if e.insert {
		size = uint64(len(e.value))
	}
	switch {
	case size == 0 && !e.insert:
		return backend.Errorf(backend.InvalidArg, "the buffer of the cache entry has no bytes")
	case b.base == 0 && size > 0:
		return backend.Errorf(backend.InvalidArg, "the buffer of the cache entry has no memory: TRITONCACHE_CacheEntrySetBuffer gives it some")
	case b.size < size:
		return backend.Errorf(backend.InvalidArg, "the buffer of the cache entry has %d bytes, the value has %d", b.size, size)
	}
	memory, ok := object.Bytes(b.base, size)
	if !ok {
		return backend.Errorf(backend.InvalidArg, "the buffer of the cache entry cannot have %d bytes", size)
	}
	if e.insert {
		copy(memory, e.value)
		return nil
	}
	to, err := e.give(int(size))
	if err != nil {
		return err
	}
	copy(to, memory)
	e.copied = true
	return nil
}
