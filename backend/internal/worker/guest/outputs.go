package guest

import (
	"errors"
	"slices"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// Outputs of served instances end where memory ends that nobody may touch: who
// writes behind one of them dies there, and not of what it has overwritten. What
// lies between the last byte and the next multiple of 64 has a pattern that Check
// looks at.

const (
	pageSize = 4096
	// slackByte is the pattern behind an output.
	slackByte = 0xA5
	// slotPages is how many pages a small output has, and slotsAtOnce how many such
	// are made together.
	slotPages, slotsAtOnce = 2, 64
)

// Block is memory for an output.
type Block struct {
	guest *Guest
	place wire.Place
	data  []byte
	slack []byte
	slot  []byte         // of a small one: all that it has
	given *tensor.Buffer // memory of who sent the request; nil for the worker's own
}

// Data is the memory: none for what lies on a GPU. That of the worker begins at a multiple
// of 64.
func (k *Block) Data() []byte { return k.data }

// Given is the buffer of memory that who sent the request has given; nil for others.
func (k *Block) Given() *tensor.Buffer { return k.given }

func (k *Block) inline() bool { return k.slot != nil }

// ErrOverrun is what Check says of a block behind which something was written.
var ErrOverrun = errors.New("the memory behind it was written to")

// Check reports whether the bytes just behind the block are as they were.
func (k *Block) Check() error {
	for _, b := range k.slack {
		if b != slackByte {
			return ErrOverrun
		}
	}
	return nil
}

// Free takes back a block that was not sent.
func (k *Block) Free() {
	if k == nil || k.guest == nil {
		return
	}
	m := &k.guest.memory
	if k.given != nil {
		k.takeBack()
	} else if k.slot != nil {
		m.mu.Lock()
		m.slots = append(m.slots, k.slot)
		m.mu.Unlock()
	} else {
		m.release(wire.Block{Segment: k.place.Segment, Offset: k.place.Offset})
	}
	*k = Block{}
}

// Give makes a block of memory that who sent a request has given, whose reference it takes
// over.
func (g *Guest) Give(b *tensor.Buffer) *Block {
	return &Block{guest: g, place: wire.Place{Segment: wire.NearSegment}, data: b.Bytes(), given: b}
}

// located says where the server finds the block, which is its from then on. Once the
// connection has ended that is nowhere, and nobody has the block.
func (k *Block) located() wire.Place {
	if k.given == nil {
		return k.place
	}
	place := k.place
	if place.Offset = k.guest.near.Send(k.given); place.Offset == 0 {
		*k = Block{}
	} else {
		k.place = place
	}
	return place
}

// takeBack lets go of memory that was given, unless the server has it.
func (k *Block) takeBack() {
	if k.place.Offset == 0 {
		k.given.Release()
		return
	}
	k.guest.near.Take(k.place.Offset).Release()
}

// Allocate returns memory for an output of that many bytes: where the server reads
// it if it is longer than limit, else where it is copied from into the frame.
func (g *Guest) Allocate(size, limit int) (*Block, error) {
	k := &Block{guest: g, place: wire.Place{Segment: wire.InlineSegment}}
	var all []byte
	if size <= min(limit, slotPages*pageSize) {
		slot, err := g.memory.slot()
		if err != nil {
			return nil, err
		}
		k.slot, all = slot, slot
	} else {
		place, data, err := g.memory.guarded(size)
		if err != nil {
			return nil, err
		}
		all, k.place = data, place
	}
	begin := len(all) - tensor.Align(size)
	k.data, k.slack = all[begin:begin+size:begin+size], all[begin+size:]
	k.place.Offset += uint64(begin)
	for i := range k.slack {
		k.slack[i] = slackByte
	}
	if k.slot == nil {
		g.memory.place(k.place, begin)
	}
	return k, nil
}

// slot returns the memory of a small output.
func (m *guestMemory) slot() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.slots) == 0 {
		const stride = (slotPages + 1) * pageSize
		region, err := anonymous(slotsAtOnce * stride)
		if err != nil {
			return nil, err
		}
		m.watch(region)
		for at := 0; at < len(region); at += stride {
			end := at + slotPages*pageSize
			if err := guard(region[end:end+pageSize], true); err != nil {
				return nil, err
			}
			m.slots = append(m.slots, region[at:end:end])
		}
	}
	last := len(m.slots) - 1
	s := m.slots[last]
	m.slots = m.slots[:last]
	return s, nil
}

// guarded returns whole pages of output memory with one behind them that nobody
// may touch.
func (m *guestMemory) guarded(size int) (wire.Place, []byte, error) {
	pages := (size + pageSize - 1) / pageSize * pageSize
	if b, ok := m.again(pages); ok {
		return b.at, b.data, nil
	}
	at, data, err := m.allocate(pages + pageSize)
	if err != nil {
		return at, nil, err
	}
	b := guardedBlock{at: at, data: data[:pages:pages], page: data[pages : pages+pageSize]}
	if err := guard(b.page, true); err != nil {
		m.release(wire.Block{Segment: at.Segment, Offset: at.Offset})
		return at, nil, err
	}
	m.mu.Lock()
	m.guards[b.key()] = b
	m.mu.Unlock()
	return at, b.data, nil
}

// keptGuards is how many guarded blocks are kept as they are: to make a page untouchable
// and ordinary again takes a tenth of the processor time in which a library copies a MiB.
const keptGuards = 16

// again returns a block of so many bytes that was kept, the one that came back last: it
// may lie in the processor's cache.
func (m *guestMemory) again(size int) (guardedBlock, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range slices.Backward(m.kept) {
		if len(b.data) == size {
			m.kept = slices.Delete(m.kept, i, i+1)
			m.guards[b.key()] = b
			return b, true
		}
	}
	return guardedBlock{}, false
}

// guardedBlock is a block with its guard. In guards it is by the place at which the server
// knows it.
type guardedBlock struct {
	at         wire.Place
	data, page []byte
}

func (b *guardedBlock) key() wire.Block {
	return wire.Block{Segment: b.at.Segment, Offset: b.at.Offset}
}

// place notes that the server will know the block that begins so many bytes before
// by this one.
func (m *guestMemory) place(at wire.Place, begin int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := wire.Block{Segment: at.Segment, Offset: at.Offset - uint64(begin)}
	k := m.guards[from]
	delete(m.guards, from)
	m.guards[wire.Block{Segment: at.Segment, Offset: at.Offset}] = k
}

// freeLocked makes a block that has come back ordinary memory again.
func (m *guestMemory) freeLocked(b guardedBlock) {
	_ = guard(b.page, false) // what fails is found by the next who writes there
	m.freeOwnLocked(b.at.Segment, b.at.Offset)
}

// Watch has f called with each piece of memory that outputs lie in, from now on.
func (g *Guest) Watch(outputs, inputs func([]byte)) {
	g.memory.watch, g.memory.watchInputs = outputs, inputs
}
