package worker

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
)

// One goroutine at a time reads the control channel. It is best the one that
// waits for the answer: then a request costs no switch between goroutines,
// which is most of what a round trip costs here. So an Execute that waits takes
// the reader's part when nobody has it, delivers whatever comes, and passes the
// part on when its own batch has ended: to another waiting Execute, else to
// nobody. When nobody has had it for a moment, or there is something else to
// wait for, the background goroutine reads.

// wakeKind says why a waiting Execute was woken.
type wakeKind uint8

const (
	wakeEnded wakeKind = iota // its batch has ended
	wakeLead                  // it is the reader now
)

// idleRead is how long the channel may stay without a reader. A death in that
// time is noticed so much later.
const idleRead = 2 * time.Millisecond

// callSpell is how long after a call of the process the channel always has a
// reader: nothing tells when the next call comes, and without a reader it would
// lie there until the next idle tick. In that time a request costs a switch
// between goroutines.
const callSpell = 100 * time.Millisecond

// readerState is part of Conn and guarded by its mu, except rd, which belongs
// to whoever reads.
type readerState struct {
	rd        frameReader
	eager     eager         // the source of rd; nil where that cannot hurry
	reading   bool          // somebody has the reader's part
	wake      chan struct{} // gives it to the background goroutine
	followers []*batchCall  // Executes that wait
	turn      uint64        // counts how often the part was laid down
	idleTurn  uint64
	idle      *time.Timer
	idleArmed bool
	ended     bool      // a batch has ended since the background goroutine looked
	callUntil time.Time // until then the next call of the process is likely

	// These belong to whoever reads.
	leading bool       // that is an Execute, not the background goroutine
	fetch   *inferCall // a call that it makes for the worker instead of reading
	chains  bool       // the worker's batches make such calls
}

// called notes that the process calls the server by itself.
func (c *Conn) called() {
	c.mu.Lock()
	c.r.callUntil = time.Now().Add(callSpell)
	c.mu.Unlock()
}

// callingLocked reports whether the process has just called the server.
func (c *Conn) callingLocked() bool {
	return !c.r.callUntil.IsZero() && time.Now().Before(c.r.callUntil)
}

// await returns when the batch has ended.
func (c *Conn) await(call *batchCall) {
	c.mu.Lock()
	for !call.ended {
		if !c.r.reading {
			c.r.reading = true
			c.mu.Unlock()
			c.lead(call)
			c.mu.Lock()
			continue
		}
		c.r.followers = append(c.r.followers, call)
		c.mu.Unlock()
		why := <-call.wake
		if why == wakeLead {
			c.lead(call)
		}
		c.mu.Lock()
	}
	c.mu.Unlock()
}

// lead reads until the caller's batch has ended, then passes the part on. When
// the worker makes a call and waits for nothing else, it lays the part down,
// makes the call on its own goroutine and returns. Should that take long, the
// idle tick finds another reader.
func (c *Conn) lead(call *batchCall) {
	c.r.leading = true
	for !call.ended || c.r.rd.buffered() {
		if (call.chained || c.r.chains) && c.r.eager != nil {
			c.r.eager.expect()
		}
		err := c.step()
		if fetch := c.r.fetch; fetch != nil {
			c.r.fetch, c.r.leading, c.r.chains = nil, false, true
			c.mu.Lock()
			if c.err == nil {
				c.layDownLocked()
			} else {
				c.r.wake <- struct{}{} // others need not wait for the call
			}
			c.mu.Unlock()
			fetch.run()
			return
		}
		if err != nil {
			c.r.leading = false
			c.end(err)
			c.mu.Lock()
			c.r.wake <- struct{}{} // the background goroutine answers what is left
			c.mu.Unlock()
			return
		}
	}
	c.r.leading = false
	c.mu.Lock()
	c.passOnLocked()
	c.mu.Unlock()
}

// step reads and handles one frame.
func (c *Conn) step() error {
	h, body, err := c.r.rd.next()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.runErrands()
			return nil
		}
		return err
	}
	return c.handle(h, body, c.r.rd.cur)
}

// passOnLocked gives the reader's part to whoever waits for something. It
// reports whether somebody else has it now, or nobody.
func (c *Conn) passOnLocked() bool {
	if n := len(c.r.followers); n > 0 {
		next := c.r.followers[0]
		c.unfollowLocked(0)
		next.wake <- wakeLead
		return true
	}
	if c.err != nil || c.requests.live > 0 || len(c.calls) > 0 || len(c.batches) > 0 || c.callingLocked() {
		c.r.wake <- struct{}{}
		return true
	}
	c.layDownLocked()
	return true
}

// layDownLocked leaves the channel without a reader, until an Execute or the
// idle tick takes the part up.
func (c *Conn) layDownLocked() {
	c.r.reading = false
	c.r.turn++
	if !c.r.idleArmed && c.err == nil {
		c.r.idleArmed = true
		c.r.idle.Reset(idleRead)
	}
}

func (c *Conn) unfollowLocked(i int) {
	n := len(c.r.followers) - 1
	copy(c.r.followers[i:], c.r.followers[i+1:])
	c.r.followers[n] = nil
	c.r.followers = c.r.followers[:n]
}

// endedLocked marks the batch as ended and wakes its Execute if that waits.
func (c *Conn) endedLocked(call *batchCall) {
	call.ended = true
	c.r.ended = true
	for i, f := range c.r.followers {
		if f == call {
			c.unfollowLocked(i)
			call.wake <- wakeEnded
			return
		}
	}
}

// backgroundLocked gives the reader's part to the background goroutine if
// nobody has it.
func (c *Conn) backgroundLocked() {
	if !c.r.reading {
		c.r.reading = true
		c.r.wake <- struct{}{}
	}
}

// idleTick puts the background goroutine in charge of a channel that nobody
// has read for a while.
func (c *Conn) idleTick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.r.idleArmed = false
	switch {
	case c.r.reading || c.err != nil:
	case c.r.turn != c.r.idleTurn:
		c.r.idleTurn = c.r.turn
		c.r.idleArmed = true
		c.r.idle.Reset(idleRead)
	default:
		c.backgroundLocked()
	}
}

// background reads while no Execute does, and answers what is left when the
// channel has ended. It starts with the reader's part.
func (c *Conn) background() {
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
		if c.r.rd.buffered() {
			continue
		}
		c.mu.Lock()
		wait := false
		if len(c.r.followers) > 0 || c.r.ended && c.err == nil && c.requests.live == 0 && len(c.calls) == 0 && len(c.batches) == 0 {
			wait = c.passOnLocked()
		}
		c.r.ended = false
		c.mu.Unlock()
		if wait {
			<-c.r.wake
		}
	}
	c.r.rd.close()
	c.abandon() // the process has ended then, and with it what it had open
	c.returnLent()
	c.closeBoards()
	c.mem.close()
	c.leaveDevices()
}

// watch is a context that Executes run under. The server's is the same for
// all of them, so that watching it costs nothing a batch.
type watch struct {
	done  <-chan struct{}
	calls int
	stop  func() bool
}

// watchLocked makes the end of ctx cancel the call.
func (c *Conn) watchLocked(ctx context.Context, call *batchCall) {
	call.ctxDone = ctx.Done()
	if call.ctxDone == nil {
		return
	}
	kept := c.watches[:0]
	found := false
	for _, w := range c.watches {
		switch {
		case w.done == call.ctxDone:
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
		done := call.ctxDone
		c.watches = append(c.watches, watch{done, 1, context.AfterFunc(ctx, func() { c.contextEnded(done) })})
	}
}

func (c *Conn) unwatchLocked(call *batchCall) {
	for i := range c.watches {
		if c.watches[i].done == call.ctxDone {
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
	var lines []*Instance
	for id, call := range c.batches {
		if call.ctxDone == done {
			ids = append(ids, id)
			if call.inst.Board != nil && !slices.Contains(lines, call.inst) {
				lines = append(lines, call.inst)
			}
			for _, h := range call.handles {
				c.cancelLocked(h)
			}
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
	taken := c.recallLocked(lines)
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
			stuck = stuck || c.batches[id] != nil
		}
		c.mu.Unlock()
		switch {
		case stuck && c.opts.KeepStuck:
			for _, id := range ids {
				c.tell(func() { c.forsake(id) })
			}
		case stuck:
			c.end(errStuck)
		}
	})
}

// finish ends a batch. Requests without a final response get err, or are told
// that there was none. Only the reader calls it.
func (c *Conn) finish(id uint64, err error) {
	c.mu.Lock()
	call := c.batches[id]
	delete(c.batches, id)
	if call != nil {
		c.limitEndedLocked(call.inst, id)
		c.leaveLocked(call)
	}
	c.mu.Unlock()
	if call != nil {
		c.settle(call, err)
	} else {
		c.settleForsaken(id)
	}
}

// request returns the request of a handle that is not finally answered, or nil.
func (c *Conn) request(handle uint64) *backend.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.requests.find(handle); s != nil {
		return s.req
	}
	return nil
}

// settle answers what a batch left open and ends it. A decoupled model may
// answer later, unless the batch has failed.
func (c *Conn) settle(call *batchCall, err error) {
	inst := call.inst
	if inst.Decoupled && !inst.Gather {
		for _, h := range call.handles {
			if err != nil {
				c.respond(h, &backend.Response{Err: backend.AsError(err)}, 0, responseFinal)
			} else if r := c.request(h); r != nil {
				r.Settle(false) // it would have said so by now
			}
		}
		err = nil
	}
	copies := call.copies
	call.copies = nil
	open := 0
	c.mu.Lock()
	if call.expired {
		for _, h := range call.handles {
			for _, b := range c.expired[h].copies {
				copies = append(copies, copied{buf: b})
			}
			delete(c.expired, h)
		}
		inst.overdue.Add(-1)
	}
	if !inst.Decoupled || inst.Gather {
		for _, h := range call.handles {
			if s := c.requests.find(h); s != nil {
				open++
				for _, b := range s.copies {
					copies = append(copies, copied{buf: b})
				}
				c.requests.remove(h)
			}
		}
	}
	c.mu.Unlock()
	releaseCopies(copies)
	if open > 0 && err == nil && !inst.Gather {
		err = noAnswer(inst, open)
	}
	c.mu.Lock()
	call.err = err
	c.unwatchLocked(call)
	c.endedLocked(call)
	c.mu.Unlock()
}
