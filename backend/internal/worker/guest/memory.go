package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

var errServerGone = errors.New("the server is gone")

// guestMemory is what a worker in Go has mapped: the inputs of the server, and
// its own output memory, which it divides up itself.
type guestMemory struct {
	guest *Guest
	mu    sync.Mutex
	// inputs are the mappings of kinds 0 and 2, by number.
	inputs map[uint32][]byte
	own    []*guestSegment
	// guards are the blocks of served instances, by the place where they begin.
	guards map[wire.Block]guardedBlock
	// kept are guarded blocks that have come back, for the next outputs of their size.
	kept  []guardedBlock
	slots [][]byte // of small outputs, free
	// watch and watchInputs are told of what was mapped.
	watch, watchInputs func([]byte)
	// grown gets the answer to a GROW: nil, or why there is no more memory.
	grown chan error
	// growing is held by the one who asks for more.
	growing sync.Mutex
	ended   chan struct{}
}

type guestSegment struct {
	number uint32
	data   []byte
	blocks *segment.Buddy
}

func (m *guestMemory) init(g *Guest) {
	m.guest, m.inputs, m.grown, m.ended = g, map[uint32][]byte{}, make(chan error, 1), make(chan struct{})
	m.guards, m.watch, m.watchInputs = map[wire.Block]guardedBlock{}, func([]byte) {}, func([]byte) {}
}

// end lets a waiting allocate return.
func (m *guestMemory) end() { close(m.ended) }

// segment takes what the server hands over.
func (g *Guest) segment(body []byte) error {
	number, kind, size, err := wire.DecodeSegment(body)
	if err != nil {
		return err
	}
	ours := kind <= wire.SegmentLent || g.board.known && (kind == wire.SegmentBoard || kind == wire.SegmentBell)
	if !ours {
		return &wire.ProtocolError{Kind: wire.KindSegment, Field: "kind", Offset: 4, Detail: fmt.Sprintf("%d is for others", kind)}
	}
	file, err := channel.ReceiveFile(g.descriptors)
	if err != nil {
		return err
	}
	switch kind {
	case wire.SegmentBoard:
		return g.board.maps(file, size)
	case wire.SegmentBell:
		g.board.bell = file
		return nil
	}
	return g.memory.segment(number, kind, size, file)
}

func (m *guestMemory) segment(number, kind uint32, size uint64, file *os.File) error {
	data, err := segment.Map(file, int(size), kind == wire.SegmentOutputs)
	_ = file.Close()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if kind != wire.SegmentOutputs {
		m.inputs[number] = data
		m.watchInputs(data)
		return nil
	}
	usable := uint64(1) << (bits.Len64(size) - 1)
	if usable < segment.MinBlock {
		return fmt.Errorf("worker protocol: an output segment of %d bytes", size)
	}
	m.watch(data)
	m.own = append(m.own, &guestSegment{number: number, data: data, blocks: segment.NewBuddy(usable)})
	select {
	case m.grown <- nil:
	default:
	}
	return nil
}

// drop unmaps a segment that was lent: what used it has been answered.
func (m *guestMemory) drop(body []byte) error {
	number, err := wire.DecodeDrop(body)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.inputs[number]
	if !ok || number < wire.FirstLentSegment {
		return &wire.ProtocolError{Kind: wire.KindDrop, Field: "segment", Detail: fmt.Sprintf("%d was not lent", number)}
	}
	delete(m.inputs, number)
	segment.Unmap(data)
	return nil
}

// failed is the server's answer to a GROW that it refuses.
func (m *guestMemory) failed(body string) {
	select {
	case m.grown <- errors.New(body):
	default:
	}
}

// input returns the block of an entry.
func (m *guestMemory) input(e *wire.Entry) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data := m.inputs[e.Segment]
	if e.Offset > uint64(len(data)) || e.Length > uint64(len(data))-e.Offset {
		return nil, fmt.Errorf("worker protocol: block at %d with %d bytes is outside segment %d of %d bytes",
			e.Offset, e.Length, e.Segment, len(data))
	}
	return data[e.Offset : e.Offset+e.Length : e.Offset+e.Length], nil
}

// allocate returns a block of output memory, asking the server for more where
// there is none.
func (m *guestMemory) allocate(size int) (wire.Place, []byte, error) {
	order := segment.OrderFor(uint64(size))
	if at, data, ok := m.take(order, size); ok {
		return at, data, nil
	}
	m.growing.Lock()
	defer m.growing.Unlock()
	for range 3 {
		if at, data, ok := m.take(order, size); ok { // another one has grown it, or something came back
			return at, data, nil
		}
		if err := m.grow(segment.MinBlock << order); err != nil {
			return wire.Place{}, nil, err
		}
	}
	if at, data, ok := m.take(order, size); ok {
		return at, data, nil
	}
	return wire.Place{}, nil, errors.New("output memory cannot grow")
}

func (m *guestMemory) take(order, size int) (wire.Place, []byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		for _, s := range m.own {
			if offset, ok := s.blocks.Alloc(order); ok {
				return wire.Place{Segment: s.number, Offset: offset}, s.data[offset : offset+uint64(size)], true
			}
		}
		if len(m.kept) == 0 {
			return wire.Place{}, nil, false
		}
		for _, b := range m.kept { // before there is more memory
			m.freeLocked(b)
		}
		m.kept = m.kept[:0]
	}
}

func (m *guestMemory) grow(need uint64) error {
	select {
	case err := <-m.grown: // an answer that nobody waited for
		_ = err
	default:
	}
	g := m.guest
	g.mu.Lock()
	var err error
	g.out, err = wire.AppendFrame(g.out, wire.KindGrow, 0, 0, binary.LittleEndian.AppendUint64(nil, need))
	err = g.sendLocked(err)
	g.mu.Unlock()
	if err != nil {
		return err
	}
	g.readOn()
	select {
	case err := <-m.grown:
		return err
	case <-m.ended:
		return errServerGone
	}
}

// release takes back a block of output memory. Others are not ours.
func (m *guestMemory) release(k wire.Block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, guarded := m.guards[k]
	if !guarded {
		if !slices.ContainsFunc(m.kept, func(b guardedBlock) bool { return b.key() == k }) { // else it has come back before
			m.freeOwnLocked(k.Segment, k.Offset)
		}
		return
	}
	delete(m.guards, k)
	if len(m.kept) == keptGuards {
		m.freeLocked(m.kept[0])
		m.kept = slices.Delete(m.kept, 0, 1)
	}
	m.kept = append(m.kept, b)
}

// freeOwnLocked takes back a block of output memory that begins there.
func (m *guestMemory) freeOwnLocked(segment uint32, offset uint64) {
	for _, s := range m.own {
		if s.number == segment {
			s.blocks.Free(offset)
		}
	}
}
