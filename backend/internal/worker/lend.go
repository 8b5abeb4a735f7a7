package worker

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/nesoserve/neso/tensor"
)

const (
	// firstLentSegment is where the numbers of segments of others start. A number
	// is used once, so that a late RELEASE can never mean another segment.
	firstLentSegment = 1 << 30
	// maxLent bounds the segments of others that one worker has mapped.
	maxLent = 64
)

// lender owns segments that workers of other models may be given to read: the
// input memory of a version, the output memory of a worker. It is the Arena of
// the Region of its buffers.
type lender interface {
	// segmentAt returns the n-th segment. It exists as long as a buffer in it.
	segmentAt(n int) *segment
}

// lentSegments are the segments of others that the worker of a connection has
// been given. Its fields but ended and closed are guarded by the connection's mu.
type lentSegments struct {
	// able says that the worker knows such segments and DROP.
	able bool
	// numbers holds every segment that the worker could have been given: the
	// answer, 0 for no, stays the same until the segment ends.
	numbers  map[*segment]uint32
	segments map[uint32]*segment // those that it has, by number
	// dropping are those on GPUs that it has been told to let go of and has not yet.
	dropping map[uint32]*segment
	next     uint32
	timer    *time.Timer // takes ended to the worker

	mu     sync.Mutex // nothing else is locked under it
	ended  []*segment
	closed bool
}

func (l *lentSegments) init(drop func()) {
	l.numbers, l.segments, l.dropping, l.next = map[*segment]uint32{}, map[uint32]*segment{}, map[uint32]*segment{}, firstLentSegment
	l.timer = time.AfterFunc(time.Hour, drop)
	l.timer.Stop()
}

// segmentOf says in which segment the tensor's data lies, and where. Data that
// does not begin at a multiple of tensor.Alignment has to be copied, as has what
// was moved out of its buffer.
func segmentOf(t *tensor.Tensor) (*segment, uint64, bool) {
	if t.Buffer == nil {
		return nil, 0, false
	}
	r := t.Buffer.Region()
	if m, ok := r.Arena.(*deviceMemory); ok {
		return m.of, r.Offset, true
	}
	owner, ok := r.Arena.(lender)
	if !ok {
		return nil, 0, false
	}
	if len(t.Data) == 0 {
		return nil, 0, false
	}
	at, ok := within(t)
	if !ok || (r.Offset+at)%tensor.Alignment != 0 {
		return nil, 0, false
	}
	s := owner.segmentAt(int(r.Segment))
	return s, r.Offset + at, s != nil
}

// within returns where in its buffer the tensor's data begins.
func within(t *tensor.Tensor) (uint64, bool) {
	whole := t.Buffer.Bytes()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(t.Data))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return uint64(at), at <= uintptr(len(whole)) && uintptr(len(t.Data)) <= uintptr(len(whole))-at
}

// lend has the worker map the segment of somebody else that the tensor lies in,
// if it has not yet. False: the tensor has to be copied. The answer holds as
// long as the tensor's buffer. Memory on a GPU is for workers only that have said
// that they see it; whether this reader takes it is for the caller to know.
func (c *Conn) lend(t *tensor.Tensor) (place, bool) {
	s, offset, ok := segmentOf(t)
	if !ok {
		return place{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || s.device == nil && !c.lent.able || s.device != nil && !c.seesLocked(s.device.GPU()) {
		return place{}, false
	}
	number, known := c.lent.numbers[s]
	if !known {
		number = c.lendLocked(s)
	}
	return place{segment: number, offset: offset}, number != 0
}

// lendLocked hands the segment over under a new number; 0 when that cannot be.
func (c *Conn) lendLocked(s *segment) uint32 {
	l, number := &c.lent, uint32(0)
	switch {
	case len(l.segments) >= maxLent || l.next >= firstOutputSegment:
	case s.device != nil:
		number = l.next
		l.next++
		l.segments[number] = s
		c.out = appendDeviceSegment(c.out, number, segmentDeviceLent, s.device)
	default:
		if file, err := s.readOnly(); err == nil {
			if err = sendFiles(c.ch.Descriptors, file); err == nil {
				number = l.next
				l.next++
				l.segments[number] = s
				c.out = appendSegment(c.out, number, segmentLent, uint64(len(s.data)))
			}
			_ = file.Close()
		}
	}
	l.numbers[s] = number
	s.lentTo(c)
	return number
}

// lentLocked says where the tensor lies in a segment that was lent for it.
func (c *Conn) lentLocked(inst *Instance, t *tensor.Tensor) (blockKey, bool) {
	if inst.Writable && !inst.Lent {
		return blockKey{}, false
	}
	s, offset, ok := segmentOf(t)
	if !ok || s.device != nil && !inst.TakesDevice {
		return blockKey{}, false
	}
	number := c.lent.numbers[s]
	return blockKey{number, offset}, number != 0
}

// endOf notes that the owner of a segment has let go of it. It locks nothing
// but the list: whoever releases a buffer may hold any connection's mu.
func (l *lentSegments) endOf(s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.ended = append(l.ended, s)
	if len(l.ended) == 1 {
		l.timer.Reset(releaseDelay)
	}
}

// dropLent has the worker unmap the segments that have ended.
func (c *Conn) dropLent() {
	l := &c.lent
	l.mu.Lock()
	ended := l.ended
	l.ended = nil
	l.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	for _, s := range ended {
		number := l.numbers[s]
		delete(l.numbers, s)
		if number == 0 {
			s.returned(c)
			continue
		}
		delete(l.segments, number)
		if s.device != nil {
			l.dropping[number] = s
		}
		c.out = appendDrop(c.out, number)
	}
	c.flushLocked()
}

// returnLent lets go of everything that was lent: the worker is gone.
func (c *Conn) returnLent() {
	l := &c.lent
	l.mu.Lock()
	l.closed, l.ended = true, nil
	l.timer.Stop()
	l.mu.Unlock()
	c.mu.Lock()
	numbers, dropping := l.numbers, l.dropping
	l.numbers, l.segments, l.dropping = nil, nil, nil
	c.mu.Unlock()
	for s := range numbers {
		s.returned(c)
	}
	for _, s := range dropping {
		s.returned(c)
	}
}

// dropped takes the worker's word that it has let go of a segment on a GPU.
func (c *Conn) dropped(body []byte) error {
	number, err := decodeDropped(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	s := c.lent.dropping[number]
	delete(c.lent.dropping, number)
	c.mu.Unlock()
	if s == nil {
		return &ProtocolError{Kind: KindDropped, Field: "segment", Detail: fmt.Sprintf("%d is not to be dropped", number)}
	}
	s.returned(c)
	return nil
}

// lentTo notes who is to be told of the segment's end.
func (s *segment) lentTo(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.borrowers == nil {
		s.borrowers = map[*Conn]struct{}{}
	}
	s.borrowers[c] = struct{}{}
}

// returned notes that a borrower has let go of the segment, or has ended. The
// last one of a segment on a GPU whose owner is gone frees it.
func (s *segment) returned(c *Conn) {
	s.mu.Lock()
	_, had := s.borrowers[c]
	delete(s.borrowers, c)
	free := had && s.device != nil && s.over && len(s.borrowers) == 0
	s.mu.Unlock()
	if free {
		s.device.free()
	}
}

// ended tells the borrowers. A mapping of host memory may outlive the segment;
// memory on a GPU is freed when they have all let go of it.
func (s *segment) ended() {
	s.mu.Lock()
	s.over = true
	borrowers := slices.Collect(maps.Keys(s.borrowers))
	if s.device == nil {
		s.borrowers = nil
	}
	s.mu.Unlock()
	if s.device != nil && len(borrowers) == 0 {
		s.device.free()
	}
	for _, c := range borrowers {
		c.lent.endOf(s)
	}
}

func appendDrop(dst []byte, number uint32) []byte {
	dst, base := beginFrame(dst, KindDrop, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, number)
	dst, _ = endFrame(dst, base)
	return dst
}

func decodeDropped(body []byte) (uint32, error) {
	c := cursor{kind: KindDropped, body: body}
	number := c.u32("segment")
	return number, c.end()
}

// decodeDrop is for workers in Go and the tests.
func decodeDrop(body []byte) (uint32, error) {
	c := cursor{kind: KindDrop, body: body}
	number := c.u32("segment")
	return number, c.end()
}
