// Package handle is what C programs hold of objects that live in Go: opaque
// pointers that point nowhere. Each names a place in a table and how often that
// place has been used, so that a pointer that is stale, of another kind or made up
// is found out at every use, and never reaches memory.
package handle

import (
	"sync"
	"sync/atomic"
)

// Handle is an opaque pointer as C programs see it; 0 is null. Its bits are, from
// the lowest: 22 of the place in the table, 32 of how often the place has been
// used, 8 of the kind of object. The top byte makes it an address that no program
// has, so that one that is followed ends the program there.
type Handle uintptr

const (
	indexBits  = 22
	chunkBits  = 10
	chunkSize  = 1 << chunkBits
	kindShift  = 56
	usesMask   = 1<<32 - 1
	indexMask  = 1<<indexBits - 1
	chunkCount = 1 << (indexBits - chunkBits)
)

// Table holds the objects of one kind. Its methods are called concurrently.
type Table[T any] struct {
	kind   uint8
	chunks [chunkCount]atomic.Pointer[[chunkSize]slot[T]]

	mu   sync.Mutex
	free []uint32
	next uint32 // places below have been used
	live int
}

// slot is one place. Whoever reads value reads live before and after: only if both
// are the handle is the value the handle's.
type slot[T any] struct {
	live  atomic.Uint64 // the handle, 0 for a free place
	value atomic.Pointer[T]
	uses  uint32 // under Table.mu
}

// NewTable returns a table for a kind of object: a number from 1 to 127 that no
// other table has.
func NewTable[T any](kind uint8) *Table[T] { return &Table[T]{kind: kind} }

// New returns a handle for v, or 0 where there are 4 million objects of the kind
// already.
func (t *Table[T]) New(v *T) Handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	var index uint32
	if n := len(t.free); n > 0 {
		index, t.free = t.free[n-1], t.free[:n-1]
	} else {
		if t.next > indexMask {
			return 0
		}
		index = t.next
		t.next++
		if c := &t.chunks[index>>chunkBits]; c.Load() == nil {
			c.Store(new([chunkSize]slot[T]))
		}
	}
	s := t.slot(index)
	s.uses++
	h := uint64(t.kind)<<kindShift | uint64(s.uses&usesMask)<<indexBits | uint64(index)
	s.value.Store(v)
	s.live.Store(h)
	t.live++
	return Handle(h)
}

func (t *Table[T]) slot(index uint32) *slot[T] {
	c := t.chunks[index>>chunkBits].Load()
	if c == nil {
		return nil
	}
	return &c[index&(chunkSize-1)]
}

// Get returns the object of a handle, or nil for one that has none: null, deleted,
// of another kind, made up.
func (t *Table[T]) Get(h Handle) *T {
	s := t.slot(uint32(h) & indexMask)
	if s == nil || h == 0 || s.live.Load() != uint64(h) {
		return nil
	}
	v := s.value.Load()
	if s.live.Load() != uint64(h) {
		return nil
	}
	return v
}

// Take ends a handle and returns its object, or nil for one that has none. Of
// several callers one gets the object.
func (t *Table[T]) Take(h Handle) *T {
	s := t.slot(uint32(h) & indexMask)
	if s == nil || h == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.live.Load() != uint64(h) {
		return nil
	}
	s.live.Store(0)
	v := s.value.Load()
	s.value.Store(nil)
	t.free = append(t.free, uint32(h)&indexMask)
	t.live--
	return v
}

// Live returns how many objects there are.
func (t *Table[T]) Live() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live
}
