package worker

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/reader"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// readerState is part of Conn. Package reader says who has the part.
type readerState struct {
	election reader.Election[*batch] // guarded by the connection's mu
	wake     chan struct{}           // gives the part to the background goroutine
	idle     *time.Timer             // its event is idleTick
}

// reading is the connection as whoever reads it has it: one goroutine at a time, to
// which the election has given the part. What only that one may do are its methods;
// others ask for them by tell.
type reading struct {
	*Conn
	rd      wire.Reader
	in      *channel.Reader  // the source of rd
	leading bool             // that is an Execute, not the background goroutine
	fetch   *hostcalls.Infer // a call that it makes for the worker instead of reading
	chains  bool             // the worker's batches make such calls
}

// called notes that the process calls the server by itself.
func (c *Conn) called() {
	c.mu.Lock()
	c.r.election.Called(time.Now())
	c.mu.Unlock()
}

// await returns when the batch has ended.
func (c *Conn) await(b *batch) {
	c.mu.Lock()
	for !b.Ended {
		if c.r.election.Take() {
			c.mu.Unlock()
			c.part.lead(b)
			c.mu.Lock()
			continue
		}
		c.r.election.Wait(b)
		c.mu.Unlock()
		why := <-b.Wake
		if why == reader.WakeLead {
			c.part.lead(b)
		}
		c.mu.Lock()
	}
	c.mu.Unlock()
}

// lead reads until the caller's batch has ended, then passes the part on. When
// the worker makes a call and waits for nothing else, it yields the part,
// makes the call on its own goroutine and returns. Should that take long, the
// idle tick finds another reader.
func (c *reading) lead(b *batch) {
	c.leading = true
	for !b.Ended || c.rd.Buffered() {
		if b.Chained || c.chains {
			c.in.Expect()
		}
		err := c.step()
		if fetch := c.fetch; fetch != nil {
			c.fetch, c.leading, c.chains = nil, false, true
			c.mu.Lock()
			if c.err == nil {
				c.yieldLocked()
			} else {
				c.r.wake <- struct{}{} // others need not wait for the call
			}
			c.mu.Unlock()
			fetch.Run()
			return
		}
		if err != nil {
			c.leading = false
			c.end(err)
			c.mu.Lock()
			c.r.wake <- struct{}{} // the background goroutine answers what is left
			c.mu.Unlock()
			return
		}
	}
	c.leading = false
	c.mu.Lock()
	c.passOnLocked()
	c.mu.Unlock()
}

// step reads and handles one frame.
func (c *reading) step() error {
	h, body, err := c.rd.Next()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.runTasks()
			return nil
		}
		return err
	}
	return c.handle(h, body, c.rd.Chunk())
}

// busyLocked reports whether something of the worker is awaited.
func (c *Conn) busyLocked() bool {
	return c.batches.Busy() || len(c.calls) > 0
}

// passOnLocked gives the reader's part to whoever waits for something.
func (c *Conn) passOnLocked() {
	switch next, b, arm := c.r.election.PassOn(c.busyLocked(), time.Now); next {
	case reader.Waiting:
		b.Wake <- reader.WakeLead
	case reader.Background:
		c.r.wake <- struct{}{}
	case reader.Nobody:
		if arm {
			c.r.idle.Reset(reader.IdleRead)
		}
	}
}

// yieldLocked leaves the channel without a reader, until an Execute or the
// idle tick takes the part up.
func (c *Conn) yieldLocked() {
	if c.r.election.Yield() {
		c.r.idle.Reset(reader.IdleRead)
	}
}

// endedLocked marks the batch as ended and wakes its Execute if that waits.
func (c *Conn) endedLocked(b *batch) {
	b.Ended = true
	if c.r.election.Ended(b) {
		b.Wake <- reader.WakeEnded
	}
}

// backgroundLocked gives the reader's part to the background goroutine if
// nobody has it.
func (c *Conn) backgroundLocked() {
	if c.r.election.Take() {
		c.r.wake <- struct{}{}
	}
}

// idleTick puts the background goroutine in charge of a channel that nobody
// has read for a while.
func (c *Conn) idleTick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch wake, arm := c.r.election.Tick(); {
	case wake:
		c.r.wake <- struct{}{}
	case arm:
		c.r.idle.Reset(reader.IdleRead)
	}
}

// background reads while no Execute does, and answers what is left when the
// channel has ended. It starts with the reader's part.
func (c *reading) background() {
	defer close(c.done)
	for {
		err := c.Err()
		if err == nil {
			if err = c.step(); err != nil {
				c.end(err)
			}
		}
		if err != nil {
			break
		}
		if c.rd.Buffered() {
			continue
		}
		c.mu.Lock()
		wait := c.r.election.Look(!c.busyLocked())
		if wait {
			c.passOnLocked()
		}
		c.mu.Unlock()
		if wait {
			<-c.r.wake
		}
	}
	c.rd.Close()
	c.failAll() // the process has ended then, and with it what it had open
	c.returnLent()
	c.closeBoards()
	c.mem.Close()
	c.leaveDevices()
	c.ownRate.End()
}

// watch is a context that Executes run under. The server's is the same for
// all of them, so that watching it costs nothing a batch.
type watch struct {
	done  <-chan struct{}
	calls int
	stop  func() bool
}

// watchLocked makes the end of ctx cancel the batch.
func (c *Conn) watchLocked(ctx context.Context, b *batch) {
	b.Context = ctx.Done()
	if b.Context == nil {
		return
	}
	kept := c.watches[:0]
	found := false
	for _, w := range c.watches {
		switch {
		case w.done == b.Context:
			w.calls++
			found = true
		case w.calls == 0:
			w.stop()
			continue
		}
		kept = append(kept, w)
	}
	c.watches = kept
	if !found {
		done := b.Context
		c.watches = append(c.watches, watch{done, 1, context.AfterFunc(ctx, func() { c.contextEnded(done) })})
	}
}

func (c *Conn) unwatchLocked(b *batch) {
	for i := range c.watches {
		if c.watches[i].done == b.Context {
			c.watches[i].calls--
		}
	}
}

// contextEnded cancels the batches of a context. A worker that does not come
// back from them in time is given up: the end of the connection answers them.
func (c *Conn) contextEnded(done <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	var ids []uint64
	var instances []*Instance
	for b := range c.batches.Under(done) {
		ids = append(ids, b.ID)
		if i := b.Instance; i.Board != nil && !slices.Contains(instances, i) {
			instances = append(instances, i)
		}
		for _, h := range b.Handles {
			c.cancelLocked(h)
		}
	}
	if len(ids) == 0 {
		return
	}
	c.flushLocked()
	if c.err != nil { // ended while the lock was free for the write: Close may wait already
		return
	}
	grace := c.opts.Grace
	if grace <= 0 {
		grace = interruptGrace
	}
	taken := c.recallLocked(instances)
	c.wg.Go(func() {
		c.takeBack(taken)
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.closing:
			return
		}
		c.mu.Lock()
		stuck := false
		for _, id := range ids {
			stuck = stuck || c.batches.Find(id) != nil
		}
		c.mu.Unlock()
		switch {
		case stuck && c.opts.KeepStuck:
			for _, id := range ids {
				c.tell(func(r *reading) { r.abandon(id) })
			}
		case stuck:
			c.end(ErrStuck)
		}
	})
}

// finish ends a batch. Requests without a final response get err, or are told
// that there was none.
func (c *reading) finish(id uint64, err error) {
	c.mu.Lock()
	b := c.batches.Finished(id)
	if b != nil {
		c.limitEndedLocked(b.Instance, id)
	}
	c.mu.Unlock()
	if b != nil {
		c.settle(b, err)
	} else {
		c.returnAbandoned(id)
	}
}

// request returns the request of a handle that is not finally answered, or nil.
func (c *Conn) request(handle uint64) *backend.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.batches.Request(handle); r != nil {
		return r.Request
	}
	return nil
}

// settle answers what a batch left open and ends it. A decoupled model may
// answer later, unless the batch has failed.
func (c *reading) settle(b *batch, err error) {
	inst := b.Instance
	later := inst.Decoupled && !inst.Gather
	if later {
		for _, h := range b.Handles {
			if err != nil {
				c.respond(h, &backend.Response{Err: backend.AsError(err)}, 0, wire.ResponseFinal)
			} else if r := c.request(h); r != nil {
				r.Settle(false) // it would have said so by now
			}
		}
		err = nil
	}
	c.mu.Lock()
	copies, open := c.batches.Settle(b, later)
	c.mu.Unlock()
	releaseBuffers(copies)
	if open > 0 && err == nil && !inst.Gather {
		err = noAnswer(inst, open)
	}
	c.mu.Lock()
	b.Err = err
	c.unwatchLocked(b)
	c.endedLocked(b)
	c.mu.Unlock()
}
