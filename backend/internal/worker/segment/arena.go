package segment

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

const (
	// DefaultInlineLimit is the size in bytes up to which tensors travel in the
	// frame.
	DefaultInlineLimit = 8192
	// segmentSize is the least size of an input segment. Untouched pages cost
	// nothing, so one is enough for most models.
	segmentSize = 64 << 20
	// DefaultMemoryLimit bounds the output segments of one worker, in bytes.
	DefaultMemoryLimit = 16 << 30
	// defaultAddressSpace bounds the segments of one arena. It does not bound memory:
	// the block for a whole body is handed out when its first part has come, and the
	// server counts the bytes of bodies as they come.
	defaultAddressSpace = 1 << 40
	// idleTick is how long a segment must have been without an allocation until
	// its free pages are given back.
	idleTick = 5 * time.Second
)

// Arena is the input memory of one loaded version. Tensors that fit a frame
// get ordinary memory, larger ones blocks of segments that all workers of the
// version map. It implements tensor.Allocator.
//
// Close gives the mappings back when the last block has been released.
type Arena struct {
	small  tensor.Allocator // nil: the garbage collector's
	limit  uint64
	inline int

	mu       sync.Mutex
	segments []*inputSegment // by number
	total    uint64          // bytes of all segments
	live     int             // blocks handed out
	closed   bool
	freed    bool
	idle     *time.Timer

	blocks sync.Pool    // *block
	count  atomic.Int32 // len(segments), read without mu
}

type inputSegment struct {
	*Segment
	blocks *Buddy
	recent bool // an allocation since the last tick
	dirty  bool // freed blocks since the last punch
}

// block is a buffer of an arena.
type block struct {
	tensor.Buffer
	arena   *Arena
	segment uint32
	offset  uint64
}

// NewArena returns an arena that takes memory for tensors of up to inlineLimit
// bytes from small (nil for the garbage collector's) and grows to at most
// limit bytes of address space; 0 means a terabyte.
func NewArena(small tensor.Allocator, inlineLimit int, limit uint64) *Arena {
	if limit == 0 {
		limit = defaultAddressSpace
	}
	return &Arena{small: small, limit: limit, inline: inlineLimit}
}

// ErrArenaClosed says that the version is unloaded.
var ErrArenaClosed = errors.New("the model is unloaded")

// Allocate implements tensor.Allocator.
func (a *Arena) Allocate(size int) (*tensor.Buffer, error) {
	if size < 0 {
		return nil, fmt.Errorf("allocate %d bytes", size)
	}
	if size <= a.inline {
		if a.small != nil {
			return a.small.Allocate(size)
		}
		return tensor.NewBuffer(wire.Aligned(size), nil), nil
	}
	return a.AllocateShared(size)
}

// AllocateShared returns a block of shared memory, whatever the size.
func (a *Arena) AllocateShared(size int) (*tensor.Buffer, error) {
	order := OrderFor(uint64(size))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, ErrArenaClosed
	}
	for _, s := range a.segments {
		if off, ok := s.blocks.Alloc(order); ok {
			return a.handOut(s, off, size), nil
		}
	}
	s, err := a.growLocked(uint64(MinBlock) << order)
	if err != nil {
		return nil, err
	}
	off, _ := s.blocks.Alloc(order) // fits by construction
	return a.handOut(s, off, size), nil
}

// growLocked adds a segment that has room for a block of the size, a power of
// two.
func (a *Arena) growLocked(size uint64) (*inputSegment, error) {
	size = max(size, segmentSize)
	if size > a.limit-min(a.limit, a.total) {
		return nil, fmt.Errorf("input memory of the model is at its limit of %d bytes", a.limit)
	}
	s, err := New(uint32(len(a.segments)), size, true)
	if err != nil {
		return nil, err
	}
	in := &inputSegment{Segment: s, blocks: NewBuddy(size)}
	a.segments = append(a.segments, in)
	a.total += size
	a.count.Store(int32(len(a.segments)))
	return in, nil
}

func (a *Arena) handOut(s *inputSegment, off uint64, size int) *tensor.Buffer {
	b, _ := a.blocks.Get().(*block)
	if b == nil {
		b = &block{arena: a}
	}
	b.segment, b.offset = s.number, off
	a.live++
	s.recent = true
	b.Reset(s.data[off:off+uint64(size):off+uint64(size)], tensor.Region{Arena: a, Segment: s.number, Offset: off}, b)
	return &b.Buffer
}

// ReleaseBuffer implements tensor.Releaser.
func (b *block) ReleaseBuffer(*tensor.Buffer) {
	a := b.arena
	a.mu.Lock()
	s := a.segments[b.segment]
	if !s.blocks.Free(b.offset) {
		a.mu.Unlock()
		panic("worker: block of an arena freed twice")
	}
	s.dirty = true
	a.live--
	if a.closed {
		a.freeLocked()
	} else if a.idle == nil {
		a.idle = time.AfterFunc(idleTick, a.tick)
	}
	a.mu.Unlock()
	a.blocks.Put(b)
}

// tick gives the free pages of segments back that nobody used since the last
// tick, and comes again as long as there are such pages.
func (a *Arena) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	again := false
	for _, s := range a.segments {
		switch {
		case s.recent:
			s.recent = false
			again = true
		case s.dirty:
			s.dirty = false
			s.blocks.clean(s.punch)
		}
	}
	if again {
		a.idle.Reset(idleTick)
	} else {
		a.idle = nil
	}
}

// Close refuses further allocations and frees the segments, at the latest when
// the last block is released.
func (a *Arena) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	if a.idle != nil {
		a.idle.Stop()
	}
	a.freeLocked()
}

func (a *Arena) freeLocked() {
	if a.live > 0 || a.freed {
		return
	}
	a.freed = true
	for _, s := range a.segments {
		s.Close()
	}
	// The list stays: block numbers of a later release must not dangle.
}

// Locate says where in this arena the tensor's data lies.
func (a *Arena) Locate(t *tensor.Tensor) (wire.Place, bool) {
	if a == nil || t.Buffer == nil || len(t.Data) == 0 {
		return wire.Place{}, false
	}
	r := t.Buffer.Region()
	if r.Arena != any(a) {
		return wire.Place{}, false
	}
	at, ok := within(t)
	if !ok {
		return wire.Place{}, false // Data was moved out of its buffer
	}
	offset := r.Offset + at
	return wire.Place{Segment: r.Segment, Offset: offset}, offset%tensor.Alignment == 0 // else it has to be copied
}

// Used returns how many bytes of the segments are handed out, in whole blocks.
func (a *Arena) Used() (bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.segments {
		bytes += s.blocks.used
	}
	return bytes
}

// Segments returns how many segments there are.
func (a *Arena) Segments() int { return int(a.count.Load()) }

// SegmentAt returns the n-th segment, for handing it to a worker.
func (a *Arena) SegmentAt(n int) *Segment {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.segments[n].Segment
}
