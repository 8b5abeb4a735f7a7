package segment

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// minOutputSegment is the least size of an output segment.
const minOutputSegment = 16 << 20

// Outputs is the memory into which one worker writes its outputs. The worker
// divides it up; the server makes segments, reads, and tells the worker which
// blocks it may reuse. It outlives the worker until the last view of it is
// released.
type Outputs struct {
	limit   uint64
	notify  func(wire.Block) // a block may be reused
	mu      sync.Mutex
	list    []*Segment
	total   uint64
	views   int
	closed  bool
	buffers sync.Pool // *outputView
}

// outputView is a buffer over a block that the worker wrote.
type outputView struct {
	tensor.Buffer
	owner *Outputs
	key   wire.Block
}

// NewOutputs returns memory of up to limit bytes, 0 for DefaultMemoryLimit. notify is
// told of each block that the worker may reuse.
func NewOutputs(limit uint64, notify func(wire.Block)) *Outputs {
	if limit == 0 {
		limit = DefaultMemoryLimit
	}
	return &Outputs{limit: limit, notify: notify}
}

// Grow makes a segment with room for need bytes.
func (o *Outputs) Grow(need uint64) (*Segment, error) {
	if need > o.limit {
		return nil, fmt.Errorf("output memory of %d bytes is over the limit of %d", need, o.limit)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, ErrArenaClosed
	}
	// A page more, so that a block that starts after others still fits, and at
	// least as much as there is, so that the number of segments stays small.
	size := max(uint64(1)<<bits.Len64(need+4095), minOutputSegment, o.total/2)
	size = min(size, o.limit-o.total)
	if size < need {
		return nil, fmt.Errorf("output memory of the worker is at its limit of %d bytes", o.limit)
	}
	s, err := New(wire.FirstOutputSegment+uint32(len(o.list)), (size+4095)&^4095, false)
	if err != nil {
		return nil, err
	}
	o.list = append(o.list, s)
	o.total += uint64(len(s.data))
	return s, nil
}

// AddDevice makes a segment of memory on a GPU; the error is that the worker has
// ended.
func (o *Outputs) AddDevice(m *DeviceMemory) (*Segment, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, ErrArenaClosed
	}
	m.of = &Segment{number: wire.FirstOutputSegment + uint32(len(o.list)), device: m}
	o.list = append(o.list, m.of)
	return m.of, nil
}

// OnDevice returns how many bytes the worker has on a GPU.
func (o *Outputs) OnDevice(gpu tensor.GPU) (bytes uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.list {
		if s.device != nil && s.device.GPU() == gpu {
			bytes += s.device.size
		}
	}
	return bytes
}

// View returns a buffer over what the worker wrote; its release tells the
// worker that it may reuse the block.
func (o *Outputs) View(segment uint32, offset, length uint64) (*tensor.Buffer, error) {
	o.mu.Lock()
	i := uint64(segment) - wire.FirstOutputSegment
	if segment < wire.FirstOutputSegment || i >= uint64(len(o.list)) || o.closed {
		o.mu.Unlock()
		return nil, fmt.Errorf("segment %d does not exist", segment)
	}
	s := o.list[i]
	if size := s.Size(); offset > size || length > size-offset || offset%tensor.Alignment != 0 {
		o.mu.Unlock()
		return nil, fmt.Errorf("block at %d with %d bytes is outside its segment of %d bytes or not aligned", offset, length, size)
	}
	o.views++
	o.mu.Unlock()
	v, _ := o.buffers.Get().(*outputView)
	if v == nil {
		v = &outputView{owner: o}
	}
	v.key = wire.Block{Segment: segment, Offset: offset}
	if s.device != nil {
		v.Reset(nil, tensor.Region{Arena: s.device, Offset: offset}, v)
	} else {
		v.Reset(s.data[offset:offset+length:offset+length], tensor.Region{Arena: o, Segment: uint32(i), Offset: offset}, v)
	}
	return &v.Buffer, nil
}

// SegmentAt returns the n-th segment, nil once the worker has ended.
func (o *Outputs) SegmentAt(n int) *Segment {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n >= len(o.list) {
		return nil
	}
	return o.list[n]
}

// ReleaseBuffer implements tensor.Releaser.
func (v *outputView) ReleaseBuffer(*tensor.Buffer) {
	o, key := v.owner, v.key
	o.buffers.Put(v)
	o.mu.Lock()
	o.views--
	closed := o.closed
	if closed && o.views == 0 {
		o.freeLocked()
	}
	o.mu.Unlock()
	if !closed {
		o.notify(key)
	}
}

// Close frees the segments, at the latest when the last view is released.
func (o *Outputs) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.closed = true
	if o.views == 0 {
		o.freeLocked()
	}
}

func (o *Outputs) freeLocked() {
	for _, s := range o.list {
		s.Close()
	}
	o.list = nil
}
