package worker

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// What is sent ahead to a worker waits in the pipeline of its instance, see package
// inflight; which of it the worker has begun, package board knows.

const (
	// aheadLimit is how many batches may be on their way to one worker beyond the one
	// that it runs: enough that it finds the next ones when it reads.
	aheadLimit = 15
	// pipelineTick is how often a pipeline is looked at: when the worker has begun
	// nothing between two looks, what waits there is taken back.
	pipelineTick = 4 * time.Millisecond
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
		c.boards.timer = time.AfterFunc(time.Hour, c.lookAtPipelines)
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

// lookSoonLocked has the pipelines looked at, since a batch waits in one.
func (c *Conn) lookSoonLocked() {
	if !c.boards.armed {
		c.boards.armed = true
		c.boards.timer.Reset(pipelineTick)
	}
}

// begunLocked notes what the worker has begun, and returns up to which number.
func (i *Instance) begunLocked() uint64 {
	begun := i.Board.Begun()
	i.pipeline.Begun(begun)
	return begun
}

// lookAtPipelines takes back what has been sent to workers that have not come to
// it, and has those that run something else send the answers that they hold. It
// is the timer's event.
func (c *Conn) lookAtPipelines() {
	c.mu.Lock()
	c.boards.armed = false
	var late []*Instance
	held := false
	if c.err == nil && c.boards.memory != nil {
		for _, i := range c.instances {
			if i.Board == nil || i.pipeline.Len() < 2 {
				continue
			}
			holds, isLate := i.pipeline.Look(i.Board.Begun())
			held = held || holds
			if isLate {
				late = append(late, i)
			}
			c.boards.armed = true
		}
		if held {
			c.boards.memory.Ring()
		}
	}
	taken := c.recallLocked(late)
	if c.boards.armed {
		c.boards.timer.Reset(pipelineTick)
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
		if i.Board == nil {
			continue
		}
		if last := i.pipeline.Recall(); last > 0 {
			i.Board.Recall(last)
			taken = append(taken, recall{i, last})
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
		var copies []*tensor.Buffer
		c.mu.Lock()
		for _, t := range taken {
			if i := t.instance; i.Board != nil {
				copies = append(copies, c.giveBackLocked(i, i.begunLocked(), t.last)...)
			}
		}
		c.mu.Unlock()
		releaseBuffers(copies)
	})
}

// giveBackLocked ends the batches of an instance after one number up to another,
// as not begun, and returns what is to be released without the lock. Only the
// reader calls it.
func (c *reading) giveBackLocked(i *Instance, begun, last uint64) (copies []*tensor.Buffer) {
	for _, b := range c.batches.Recalled(i.pipeline, begun, last) {
		copies = append(copies, c.backLocked(b)...)
	}
	return copies
}

// backLocked ends a batch that the worker has not begun.
func (c *Conn) backLocked(b *batch) (copies []*tensor.Buffer) {
	copies = c.batches.NotBegun(b)
	c.limitEndedLocked(b.Instance, b.ID)
	c.unwatchLocked(b)
	c.endedLocked(b)
	return copies
}

// notBegun takes the worker's word that it has not run a batch: one that the
// server had recalled.
func (c *reading) notBegun(h wire.Header) error {
	c.mu.Lock()
	b := c.batches.Find(h.ID)
	if b == nil {
		c.mu.Unlock()
		c.returnAbandoned(h.ID)
		return nil
	}
	fault := &wire.ProtocolError{Kind: h.Kind, Field: "id", Offset: 16}
	switch {
	case b.Instance.Number != h.Instance || !b.Instance.pipeline.Recalled(h.ID):
		fault.Detail = "the batch was not recalled"
	case !c.batches.Untouched(b):
		fault.Detail = "the batch was answered"
	default:
		copies := c.backLocked(b)
		c.mu.Unlock()
		releaseBuffers(copies)
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
	c.batches.Frees(h.ID)
}

// recallAllLocked forbids the worker everything: the connection ends.
func (c *Conn) recallAllLocked() {
	for _, i := range c.instances {
		if i.Board != nil {
			i.pipeline.RecallAll()
			i.Board.Recall(math.MaxUint64)
		}
	}
}

// takeBackAll gives back what a worker that has ended has not begun.
func (c *reading) takeBackAll() {
	c.mu.Lock()
	waits := slices.ContainsFunc(slices.Collect(maps.Values(c.instances)), func(i *Instance) bool {
		return i.Board != nil && i.pipeline.Len() > 0
	})
	c.mu.Unlock()
	if !waits {
		return
	}
	board.Fence() // one that was not ended by its death may still go on
	var copies []*tensor.Buffer
	c.mu.Lock()
	for _, i := range c.instances {
		if i.Board != nil {
			copies = append(copies, c.giveBackLocked(i, i.begunLocked(), math.MaxUint64)...)
		}
	}
	c.mu.Unlock()
	releaseBuffers(copies)
}
