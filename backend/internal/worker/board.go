package worker

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// What is sent ahead to a worker lies in a line; see package board.

const (
	// aheadLimit is how many batches may be on their way to one worker beyond the one
	// that it runs: enough that it finds the next ones when it reads.
	aheadLimit = 15
	// lineTick is how often a line of batches is looked at: when the worker has begun
	// none between two looks, what lies there is taken back.
	lineTick = 4 * time.Millisecond
)

// Ahead is how many batches the instance may be sent ahead.
func (i *Instance) Ahead() int {
	i.conn.mu.Lock()
	defer i.conn.mu.Unlock()
	if i.Board == nil { // also once the connection has ended
		return 0
	}
	return aheadLimit
}

// boards is part of Conn and guarded by its mu.
type boards struct {
	memory *board.Board // nil before the first instance with a board, and at the end
	armed  bool
	timer  *time.Timer
}

// NewBoard returns the board of a new instance, or nil where the worker or the
// system does not know it. It goes to the worker before the next frame.
func (c *Conn) NewBoard() *board.Slot {
	if !board.CanFence() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || !c.hello.Board {
		return nil
	}
	if c.boards.memory == nil {
		if err := c.sendBoardLocked(); err != nil {
			return nil
		}
		c.boards.timer = time.AfterFunc(time.Hour, c.lookAtLines)
	}
	return c.boards.memory.Take(c.lastID) // what was sent to the instance that had it before
}

// sendBoardLocked makes board and bell and hands them to the worker.
func (c *Conn) sendBoardLocked() error {
	made, heard, err := board.New()
	if err != nil {
		return err
	}
	defer heard.Close()
	s := made.Segment()
	err = c.sendSegmentLocked(s.File(), s.Size(), wire.BoardSegment, wire.SegmentBoard)
	if err == nil {
		err = c.sendSegmentLocked(heard, 0, wire.BellSegment, wire.SegmentBell)
	}
	if err != nil {
		made.Close()
		return err
	}
	c.boards.memory = made
	return nil
}

// freeBoardLocked gives back an instance's part.
func (c *Conn) freeBoardLocked(b *board.Slot) {
	if b != nil && c.boards.memory != nil {
		c.boards.memory.Free(b)
	}
}

// closeBoards ends what NewBoard has begun; nobody looks at a board any more.
func (c *Conn) closeBoards() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.boards.memory == nil {
		return
	}
	for _, inst := range c.instances {
		inst.Board = nil
	}
	c.boards.timer.Stop()
	c.boards.memory.Close()
	c.boards.memory = nil
}

// joinLocked notes that a batch was sent to an instance with a board.
func (c *Conn) joinLocked(call *batchCall) {
	i := call.inst
	if i.Board == nil {
		return
	}
	i.line = append(i.line, call)
	if len(i.line) == 1 {
		return
	}
	if p := call.batch.Progress; p != nil {
		call.waits = true
		p.Waits()
	}
	if !c.boards.armed {
		c.boards.armed = true
		c.boards.timer.Reset(lineTick)
	}
}

// leaveLocked notes that a batch has ended: then the worker has the next one.
func (c *Conn) leaveLocked(call *batchCall) {
	i := call.inst
	at := slices.Index(i.line, call)
	if at < 0 {
		return
	}
	i.line = slices.Delete(i.line, at, at+1)
	if len(i.line) > 0 {
		i.line[0].begins()
	}
}

func (call *batchCall) begins() {
	if call.waits {
		call.waits = false
		call.batch.Progress.Begins()
	}
}

// begunLocked notes what the worker has begun, and returns up to which number.
func (i *Instance) begunLocked() uint64 {
	begun := i.Board.Begun()
	for _, call := range i.line {
		if call.id > begun {
			break
		}
		call.begins()
	}
	return begun
}

// lookAtLines takes back what has been sent to workers that have not come to
// it, and has those that run something else send the answers that they hold. It
// is the timer's event.
func (c *Conn) lookAtLines() {
	c.mu.Lock()
	c.boards.armed = false
	var late []*Instance
	held := false
	if c.err == nil && c.boards.memory != nil {
		for _, i := range c.instances {
			if len(i.line) < 2 || i.Board == nil {
				continue
			}
			begun, first, last := i.begunLocked(), i.line[0].id, i.line[len(i.line)-1].id
			stays := first == i.seenFirst
			held = held || stays && begun > first
			if stays && begun == i.seen && begun < last {
				late = append(late, i)
			}
			i.seen, i.seenFirst = begun, first
			c.boards.armed = true
		}
		if held {
			c.boards.memory.Ring()
		}
	}
	taken := c.recallLocked(late)
	if c.boards.armed {
		c.boards.timer.Reset(lineTick)
	}
	c.mu.Unlock()
	c.takeBack(taken)
}

// recall is what an instance has been forbidden: all up to a number that it has
// not begun. The number is kept with it: what is forbidden later has not passed
// the fence of this one.
type recall struct {
	instance *Instance
	last     uint64
}

// recallLocked forbids instances what they have not begun.
func (c *Conn) recallLocked(instances []*Instance) (taken []recall) {
	for _, i := range instances {
		if i.Board != nil && len(i.line) > 0 {
			i.recalled = i.line[len(i.line)-1].id
			i.Board.Recall(i.recalled)
			taken = append(taken, recall{i, i.recalled})
		}
	}
	return taken
}

// takeBack has the reader give back what instances have been forbidden and had
// not begun.
func (c *Conn) takeBack(taken []recall) {
	if len(taken) == 0 {
		return
	}
	board.Fence()
	c.tell(func(c *reading) {
		var copies []copied
		c.mu.Lock()
		for _, t := range taken {
			if i := t.instance; i.Board != nil {
				copies = append(copies, c.giveBackLocked(i, i.begunLocked(), t.last)...)
			}
		}
		c.mu.Unlock()
		releaseCopies(copies)
	})
}

// giveBackLocked ends the batches of an instance after one number up to another,
// as not begun, and returns what is to be released without the lock. Only the
// reader calls it.
func (c *reading) giveBackLocked(i *Instance, after, last uint64) (copies []copied) {
	for _, call := range slices.Clone(i.line) {
		if call.id > after && call.id <= last && c.untouchedLocked(call) {
			copies = append(copies, c.backLocked(call)...)
		}
	}
	return copies
}

// untouchedLocked reports whether the worker has answered nothing of a batch. One
// that answers what it has not begun keeps it.
func (c *Conn) untouchedLocked(call *batchCall) bool {
	if call.outputs != nil {
		return false
	}
	for _, h := range call.handles {
		if s := c.requests.find(h); !call.expired && (s == nil || s.sent || s.stream != nil) {
			return false
		}
	}
	return true
}

// backLocked ends a batch that the worker has not begun. One that was answered
// by its timeout has ended with that.
func (c *Conn) backLocked(call *batchCall) (copies []copied) {
	delete(c.batches, call.id)
	c.limitEndedLocked(call.inst, call.id)
	if at := slices.Index(call.inst.line, call); at >= 0 {
		call.inst.line = slices.Delete(call.inst.line, at, at+1)
	}
	copies, call.copies = call.copies, nil
	for _, h := range call.handles {
		if s := c.requests.find(h); s != nil {
			for _, b := range s.copies {
				copies = append(copies, copied{buf: b})
			}
			c.requests.remove(h)
		}
		for _, b := range c.expired[h].copies {
			copies = append(copies, copied{buf: b})
		}
		delete(c.expired, h)
	}
	if call.expired {
		call.inst.overdue.Add(-1)
	} else {
		call.err = backend.ErrNotBegun
	}
	c.unwatchLocked(call)
	c.endedLocked(call)
	return copies
}

// notBegun takes the worker's word that it has not run a batch: one that the
// server had recalled.
func (c *reading) notBegun(h wire.Header) error {
	c.mu.Lock()
	call := c.batches[h.ID]
	if call == nil {
		c.mu.Unlock()
		c.returnAbandoned(h.ID)
		return nil
	}
	fault := &wire.ProtocolError{Kind: h.Kind, Field: "id", Offset: 16}
	switch {
	case call.inst.Number != h.Instance || h.ID > call.inst.recalled:
		fault.Detail = "the batch was not recalled"
	case !c.untouchedLocked(call):
		fault.Detail = "the batch was answered"
	default:
		copies := c.backLocked(call)
		c.mu.Unlock()
		releaseCopies(copies)
		return nil
	}
	c.mu.Unlock()
	return fault
}

// freed takes the worker's word that it can take another batch although one has
// not ended: its model answers later.
func (c *reading) freed(h wire.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.batches[h.ID]
	if call == nil {
		return
	}
	if at := slices.Index(call.inst.line, call); at >= 0 && at+1 < len(call.inst.line) {
		call.inst.line[at+1].begins()
	}
	if p := call.batch.Progress; p != nil {
		p.Frees()
	}
}

// recallAllLocked forbids the worker everything: the connection ends.
func (c *Conn) recallAllLocked() {
	for _, i := range c.instances {
		if i.Board != nil {
			i.recalled = math.MaxUint64
			i.Board.Recall(math.MaxUint64)
		}
	}
}

// takeBackAll gives back what a worker that has ended has not begun.
func (c *reading) takeBackAll() {
	c.mu.Lock()
	waits := slices.ContainsFunc(slices.Collect(maps.Values(c.instances)), func(i *Instance) bool { return i.Board != nil && len(i.line) > 0 })
	c.mu.Unlock()
	if !waits {
		return
	}
	board.Fence() // one that was not ended by its death may still go on
	var copies []copied
	c.mu.Lock()
	for _, i := range c.instances {
		if i.Board != nil {
			copies = append(copies, c.giveBackLocked(i, i.begunLocked(), math.MaxUint64)...)
		}
	}
	c.mu.Unlock()
	releaseCopies(copies)
}
