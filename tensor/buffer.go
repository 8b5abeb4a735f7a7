package tensor

import "sync/atomic"

// Buffer is a counted piece of memory. It is created with one reference; the
// last Release hands it back to the Releaser that made it. After that neither
// the buffer nor any view of its bytes may be touched.
//
// Functions that take a *Buffer say whether they borrow it (use it until they
// return), keep it (take a reference of their own) or consume it (take over
// the caller's reference).
type Buffer struct {
	data     []byte
	refs     atomic.Int32
	releaser Releaser
	region   Region
}

// Releaser takes back the memory of a buffer whose last reference is gone.
// ReleaseBuffer is called once per buffer life, on the goroutine that dropped
// the last reference, and must not block.
type Releaser interface {
	ReleaseBuffer(*Buffer)
}

// Region says where a buffer lies in memory that another process can map: a
// segment of Arena and the offset of the buffer's first byte in it. The zero
// Region means ordinary memory.
type Region struct {
	Arena   any    // owner of the segment, compared by identity; nil for ordinary memory; see also DeviceMemory
	Segment uint32 // number of the segment within the arena
	Offset  uint64 // bytes from the start of the segment
}

// NewBuffer returns a buffer over data with one reference. The releaser may be
// nil for memory that the garbage collector owns.
func NewBuffer(data []byte, r Releaser) *Buffer {
	b := &Buffer{}
	b.Reset(data, Region{}, r)
	return b
}

// Reset makes b a fresh buffer over data with one reference; for allocators
// that pool Buffer values. It panics if b is still referenced.
func (b *Buffer) Reset(data []byte, region Region, r Releaser) {
	if b.refs.Load() != 0 {
		panic("tensor: Reset of a buffer in use")
	}
	b.data, b.region, b.releaser = data, region, r
	b.refs.Store(1)
}

// Bytes returns the memory. The slice is valid as long as a reference is held.
func (b *Buffer) Bytes() []byte { return b.data }

// Len returns the size in bytes.
func (b *Buffer) Len() int { return len(b.data) }

// Region returns where the buffer lies in shared memory, or the zero Region.
func (b *Buffer) Region() Region { return b.region }

// Retain adds a reference and returns b. It panics on a freed buffer.
func (b *Buffer) Retain() *Buffer {
	if b.refs.Add(1) <= 1 {
		b.refs.Add(-1) // whoever recovers finds it as it was
		panic("tensor: Retain of a freed buffer")
	}
	return b
}

// Release drops a reference. A nil buffer is ignored. It panics when there is
// none left to drop.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	switch n := b.refs.Add(-1); {
	case n > 0:
	case n == 0:
		if b.releaser != nil {
			b.releaser.ReleaseBuffer(b)
		}
	default:
		panic("tensor: Release of a freed buffer")
	}
}

// References returns the present count; for tests and invariants.
func (b *Buffer) References() int { return int(b.refs.Load()) }

// Allocator gives memory for tensors. Implementations are safe for concurrent
// use.
type Allocator interface {
	// Allocate returns a buffer of exactly size bytes (size ≥ 0), aligned to 64
	// bytes, with one reference. Its content is undefined. It fails when a limit
	// is reached; it never waits.
	Allocate(size int) (*Buffer, error)
}

// Alignment of every buffer and of every tensor placed inside one, in bytes.
const Alignment = 64

// Align rounds n up to a multiple of Alignment.
func Align(n int) int { return (n + Alignment - 1) &^ (Alignment - 1) }
