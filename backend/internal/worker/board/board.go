package board

import (
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// A worker runs its batches in order, so that what was sent to it lies in its
// channel until the batch before has ended. To take such a batch back, both
// sides have to agree whether the worker has begun it, also while a model holds
// the worker's only thread. So each instance has two words in memory that both
// map, the board. The worker writes the number of a batch into begun before it
// runs it, and then looks at recalled: a batch up to that number it does not
// run, and says so (NOT_BEGUN). The server writes recalled and then looks at
// begun. Each side writes first and then reads what the other wrote, so one of
// them sees it, provided that no write is overtaken by the read after it: the
// server, which does this seldom, makes all processors pass a barrier in between
// (fence), so that the worker needs none. Both may see it: then the server takes
// the batch for begun and hears otherwise by NOT_BEGUN.
//
// A worker that lies about begun gains nothing. It keeps what it was sent, as if its model
// took long. Or it runs what the server has given to another instance of the same model:
// its answers to that are ignored, since their handles are stale.

const (
	// boardSize is that of the board's segment, boardSlot what each instance has of
	// it: two cache lines, one for each writer.
	boardSize = 8192
	boardSlot = 128
	// RecalledAt is where the word recalled is in an instance's part; begun is at 0.
	RecalledAt = 64
)

// Board is the board of one worker, and the bell that comes with it.
type Board struct {
	segment *segment.Segment
	bell    *bell
	used    []bool
}

// New makes both. heard is the worker's end of the bell, which is to be
// closed when it has been sent.
func New() (b *Board, heard *os.File, err error) {
	bell, heard, err := newBell()
	if err != nil {
		return nil, nil, err
	}
	s, err := segment.New(wire.BoardSegment, boardSize, true)
	if err != nil {
		bell.close()
		_ = heard.Close()
		return nil, nil, err
	}
	return &Board{segment: s, bell: bell, used: make([]bool, boardSize/boardSlot)}, heard, nil
}

// Segment is what the worker maps.
func (b *Board) Segment() *segment.Segment { return b.segment }

// Take returns a part that no instance has, nil when there is none. What was sent
// up to the number recalled went to the one that had it before.
func (b *Board) Take(recalled uint64) *Slot {
	i := slices.Index(b.used, false)
	if i < 0 {
		return nil
	}
	b.used[i] = true
	word := func(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b.segment.Data()[at])) }
	made := &Slot{offset: i * boardSlot, begun: word(i * boardSlot), recalled: word(i*boardSlot + RecalledAt)}
	made.begun.Store(0)
	made.recalled.Store(recalled)
	return made
}

// Free takes back an instance's part.
func (b *Board) Free(p *Slot) { b.used[p.offset/boardSlot] = false }

// Ring has the worker send the answers that it holds. It does not wait.
func (b *Board) Ring() { b.bell.ring() }

// Close ends the board; nobody may look at it any more.
func (b *Board) Close() {
	b.segment.Close()
	b.bell.close()
}

// Slot is an instance's part of the board; nil for one that is not sent
// anything ahead.
type Slot struct {
	offset   int
	begun    *atomic.Uint64
	recalled *atomic.Uint64
}

// Offset is what INIT says of it, nil without one.
func (b *Slot) Offset() *int {
	if b == nil {
		return nil
	}
	return &b.offset
}

// Begun is the number of the last batch that the worker has begun.
func (b *Slot) Begun() uint64 { return b.begun.Load() }

// Recall forbids the worker all batches up to a number that it has not begun. Which
// those are is known behind the next fence.
func (b *Slot) Recall(last uint64) { b.recalled.Store(last) }
