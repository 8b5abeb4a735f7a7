package worker

import (
	"math"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// Batches that are sent ahead wait in the pipeline of their instance, see package
// inflight. Package board knows which of them the worker has begun.

const (
	// aheadLimit is how many batches may be sent to one worker while it runs another
	// one. How many are worth it the scheduler knows, by what executions take; this
	// bounds what one worker's channel holds: with inline inputs, half a MiB.
	aheadLimit = 63
	// pipelineTick is how often a pipeline is looked at. When the worker has begun
	// nothing between two looks, the batches that wait there are taken back.
	pipelineTick = 4 * time.Millisecond
)

// Ahead is how many batches the instance may be sent ahead.
func (i *Instance) Ahead() int {
	i.conn.lock()
	defer i.conn.unlock()
	if i.Board == nil { // also once the connection has ended
		return 0
	}
	return aheadLimit
}

// boards is part of work.
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
	s := c.lock()
	defer c.unlock()
	if s.err != nil || !c.hello.Board {
		return nil
	}
	boards := &s.work.boards
	if boards.memory == nil {
		var err error
		if boards.memory, err = s.shared.newBoard(); err != nil {
			return nil
		}
		boards.timer = time.AfterFunc(time.Hour, c.lookAtPipelines)
	}
	return boards.memory.Take(s.lastID) // what was sent to the instance that had it before
}

// FreeBoard gives back the board of an instance that was not made after all.
func (c *Conn) FreeBoard(part *board.Slot) {
	c.lock().work.boards.free(part)
	c.unlock()
}

// newBoard makes board and bell and hands them to the worker.
func (s *sharedMemory) newBoard() (*board.Board, error) {
	made, heard, err := board.New()
	if err != nil {
		return nil, err
	}
	defer heard.Close()
	memory := made.Segment()
	err = s.sendSegment(memory.File(), memory.Size(), wire.BoardSegment, wire.SegmentBoard)
	if err == nil {
		err = s.sendSegment(heard, 0, wire.BellSegment, wire.SegmentBell)
	}
	if err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

// free gives back an instance's part.
func (b *boards) free(part *board.Slot) {
	if part != nil && b.memory != nil {
		b.memory.Free(part)
	}
}

// closeBoards frees the boards. Nobody looks at one any more.
func (c *Conn) closeBoards() {
	w := &c.lock().work
	defer c.unlock()
	if w.boards.memory == nil {
		return
	}
	for _, inst := range w.instances {
		inst.Board = nil
	}
	w.boards.timer.Stop()
	w.boards.memory.Close()
	w.boards.memory = nil
}

// lookSoon has the pipelines looked at, since a batch waits in one.
func (b *boards) lookSoon() {
	if !b.armed {
		b.armed = true
		b.timer.Reset(pipelineTick)
	}
}

// begun notes what the worker has begun, and returns up to which number.
func (i *Instance) begun() uint64 {
	begun := i.Board.Begun()
	i.pipeline.Begun(begun)
	return begun
}

// lookAtPipelines is the event of the timer. It takes back batches that the worker does
// not come to. A worker that runs something else is asked for the answers that it holds.
func (c *Conn) lookAtPipelines() {
	var taken []recall
	s := c.lock()
	s.work.boards.armed = false
	if s.err == nil && s.work.boards.memory != nil {
		taken = s.work.look()
	}
	c.unlock()
	c.takeBack(taken)
}

// look looks at all pipelines. It forbids the batches that their worker does not come to,
// and rings for answers that are held.
func (w *work) look() []recall {
	var late []*Instance
	held, again := false, false
	for _, i := range w.instances {
		if i.Board == nil || i.pipeline.Len() < 2 {
			continue
		}
		holds, isLate := i.pipeline.Look(i.Board.Begun())
		held = held || holds
		if isLate {
			late = append(late, i)
		}
		again = true
	}
	if held {
		w.boards.memory.Ring()
	}
	taken := w.recall(late)
	if again {
		w.boards.lookSoon()
	}
	return taken
}

// recall says that an instance has been forbidden all batches up to a number that it
// has not begun. The number belongs to it: a batch that is forbidden later has not passed
// the same fence.
type recall struct {
	instance *Instance
	last     uint64
}

// recall forbids instances the batches that they have not begun.
func (w *work) recall(instances []*Instance) (taken []recall) {
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

// takeBack has the reader give back the batches that instances have been forbidden
// and had not begun.
func (c *Conn) takeBack(taken []recall) {
	if len(taken) == 0 {
		return
	}
	board.Fence()
	c.tell(func(f *batchFrames) { f.takeBack(taken) })
}

// recallAll forbids the worker everything: the connection ends.
func (w *work) recallAll() {
	for _, i := range w.instances {
		if i.Board != nil {
			i.pipeline.RecallAll()
			i.Board.Recall(math.MaxUint64)
		}
	}
}

// takeBackAll gives back the batches that the worker, which has ended, has not begun.
func (f *batchFrames) takeBackAll() {
	var all []recall
	waits := false
	w := f.work.lock()
	for _, i := range w.instances {
		if i.Board != nil {
			all = append(all, recall{i, math.MaxUint64})
			waits = waits || i.pipeline.Len() > 0
		}
	}
	f.work.unlock()
	if waits {
		board.Fence() // one that was not ended by its death may still go on
		f.takeBack(all)
	}
}
