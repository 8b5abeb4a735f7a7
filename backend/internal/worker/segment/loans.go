package segment

import (
	"maps"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

const (
	// MaxLent bounds the segments of others that one worker has mapped.
	MaxLent = 64
	// dropDelay is how long the notice of a segment's end waits for more such notices.
	dropDelay = time.Millisecond
)

// Of says in which segment the tensor's data lies, and where. Data that
// does not begin at a multiple of tensor.Alignment has to be copied, as has what
// was moved out of its buffer.
func Of(t *tensor.Tensor) (*Segment, uint64, bool) {
	if t.Buffer == nil {
		return nil, 0, false
	}
	r := t.Buffer.Region()
	if m, ok := r.Arena.(*DeviceMemory); ok {
		return m.of, r.Offset, true
	}
	if len(t.Data) == 0 {
		return nil, 0, false
	}
	at, ok := within(t)
	if !ok || (r.Offset+at)%tensor.Alignment != 0 {
		return nil, 0, false
	}
	s := At(r)
	return s, r.Offset + at, s != nil
}

// within returns where in its buffer the tensor's data begins.
func within(t *tensor.Tensor) (uint64, bool) {
	whole := t.Buffer.Bytes()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(t.Data))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return uint64(at), at <= uintptr(len(whole)) && uintptr(len(t.Data)) <= uintptr(len(whole))-at
}

// At returns the segment of a region, which exists as long as a buffer in it. It is nil
// where workers of other models cannot be given the memory to read: that is neither the
// input memory of a version, nor the output memory of a worker, nor memory on a GPU.
func At(r tensor.Region) *Segment {
	switch owner := r.Arena.(type) {
	case *Arena:
		return owner.SegmentAt(int(r.Segment))
	case *Outputs:
		return owner.SegmentAt(int(r.Segment))
	case *DeviceMemory:
		return owner.of
	}
	return nil
}

// Loans are the segments of others that a worker has been given to read. The lock of the
// connection guards them, except for the fields that follow mu.
type Loans struct {
	// numbers has an answer for every segment that was asked for: the number under
	// which the worker has it, or 0 for no. It stays the same until the segment ends.
	numbers  map[*Segment]uint32
	segments map[uint32]*Segment // those that it has, by number
	// dropping are those on GPUs that it has been told to let go of and has not yet.
	dropping map[uint32]*Segment
	next     uint32
	timer    *time.Timer // takes ended to the worker

	mu     sync.Mutex // nothing else is locked under it
	ended  []*Segment
	closed bool
}

// Init has drop called when segments have ended.
func (l *Loans) Init(drop func()) {
	l.numbers, l.segments, l.dropping, l.next = map[*Segment]uint32{}, map[uint32]*Segment{}, map[uint32]*Segment{}, wire.FirstLentSegment
	l.timer = time.AfterFunc(time.Hour, drop)
	l.timer.Stop()
}

// Number returns the number under which the worker has the segment, or 0 when it does
// not get it. known is false when nobody has asked yet.
func (l *Loans) Number(s *Segment) (number uint32, known bool) {
	number, known = l.numbers[s]
	return number, known
}

// At returns the segment that the worker has under a number.
func (l *Loans) At(number uint32) (*Segment, bool) {
	s, ok := l.segments[number]
	return s, ok
}

// Len returns how many segments it knows of.
func (l *Loans) Len() int { return len(l.numbers) }

// Next returns the number for one more segment, 0 when the worker has MaxLent of them.
func (l *Loans) Next() uint32 {
	if len(l.segments) >= MaxLent || l.next >= wire.FirstOutputSegment {
		return 0
	}
	return l.next
}

// Lend notes that the worker gets the segment under the number of Next, or with 0 that
// it never gets it.
func (l *Loans) Lend(s *Segment, number uint32) {
	if number != 0 {
		l.next = number + 1
		l.segments[number] = s
	}
	l.numbers[s] = number
	s.lentTo(l)
}

// endOf notes that the owner of a segment has let go of it. It locks only the list,
// because whoever releases a buffer may hold the lock of any connection.
func (l *Loans) endOf(s *Segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.ended = append(l.ended, s)
	if len(l.ended) == 1 {
		l.timer.Reset(dropDelay)
	}
}

// Ended takes the segments whose owner has let go of them. It does not need the lock of
// the connection.
func (l *Loans) Ended() []*Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := l.ended
	l.ended = nil
	return ended
}

// Drop forgets a segment. It returns the number that the worker is to be told to let go
// of, 0 for none.
func (l *Loans) Drop(s *Segment) uint32 {
	number := l.numbers[s]
	delete(l.numbers, s)
	if number == 0 {
		s.returned(l)
		return 0
	}
	delete(l.segments, number)
	if s.device != nil {
		l.dropping[number] = s
	}
	return number
}

// Dropped notes that the worker has let go of a segment on a GPU. It returns false when
// the worker was not told to. The caller returns the segment with Return.
func (l *Loans) Dropped(number uint32) (*Segment, bool) {
	s, ok := l.dropping[number]
	delete(l.dropping, number)
	return s, ok
}

// Return notes that the worker has let go of a segment. The caller does not hold the
// lock of the connection.
func (l *Loans) Return(s *Segment) { s.returned(l) }

// End returns the segments that the worker had, which is gone. The caller returns them
// with Return.
func (l *Loans) End() []*Segment {
	l.mu.Lock()
	l.closed, l.ended = true, nil
	l.timer.Stop()
	l.mu.Unlock()
	left := slices.AppendSeq(slices.Collect(maps.Keys(l.numbers)), maps.Values(l.dropping))
	l.numbers, l.segments, l.dropping = nil, nil, nil
	return left
}

// lentTo notes who is to be told of the segment's end.
func (s *Segment) lentTo(l *Loans) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.borrowers == nil {
		s.borrowers = map[*Loans]struct{}{}
	}
	s.borrowers[l] = struct{}{}
}

// returned notes that a borrower has let go of the segment, or has ended. The
// last one of a segment on a GPU whose owner is gone frees it.
func (s *Segment) returned(l *Loans) {
	s.mu.Lock()
	_, had := s.borrowers[l]
	delete(s.borrowers, l)
	free := had && s.device != nil && s.over && len(s.borrowers) == 0
	s.mu.Unlock()
	if free {
		s.device.Free()
	}
}

// ended tells the borrowers. A mapping of host memory may outlive the segment;
// memory on a GPU is freed when they have all let go of it.
func (s *Segment) ended() {
	s.mu.Lock()
	s.over = true
	borrowers := slices.Collect(maps.Keys(s.borrowers))
	if s.device == nil {
		s.borrowers = nil
	}
	s.mu.Unlock()
	if s.device != nil && len(borrowers) == 0 {
		s.device.Free()
	}
	for _, l := range borrowers {
		l.endOf(s)
	}
}

// Borrowers returns how many workers have the segment.
func (s *Segment) Borrowers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.borrowers)
}
