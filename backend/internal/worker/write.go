package worker

import (
	"os"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// flushLocked writes what is in out, unless somebody is already writing. It
// never waits for the worker to read: what the socket does not take at once is
// left to the flusher. It unlocks mu while it writes.
func (c *Conn) flushLocked() {
	if c.writing || c.err != nil {
		return
	}
	c.writing = true
	for len(c.out) > 0 && c.writeErr == nil {
		buf := c.out
		c.out = c.spare[:0]
		c.spare = nil
		c.mu.Unlock()
		n, err := c.writeNow(buf)
		c.mu.Lock()
		switch {
		case err != nil:
			c.writeErr = err // the reader sees the end of the channel
		case n < len(buf):
			c.left = buf[n:]
			select {
			case c.kick <- struct{}{}:
			default: // cannot be: the flusher has nothing else to do
			}
			return // writing stays set, on behalf of the flusher
		default:
			c.recycleLocked(buf)
		}
	}
	c.writing = false
}

// writeNow writes what the socket takes without waiting.
func (c *Conn) writeNow(buf []byte) (int, error) {
	c.tryBuf = buf
	err := c.raw.Write(c.try)
	c.tryBuf = nil
	if err == nil {
		err = c.tryErr
	}
	return c.tryN, err
}

func (c *Conn) recycleLocked(buf []byte) {
	if cap(buf) <= spareLimit && cap(buf) > cap(c.spare) {
		c.spare = buf[:0]
	}
}

// flusher writes what the socket did not take at once.
func (c *Conn) flusher() {
	for {
		select {
		case <-c.kick:
		case <-c.closing:
			return
		}
		c.mu.Lock()
		buf := c.left
		c.left = nil
		for len(buf) > 0 && c.writeErr == nil && c.err == nil {
			c.mu.Unlock()
			_, err := c.ch.Control.Write(buf)
			c.mu.Lock()
			if err != nil {
				c.writeErr = err
			}
			c.recycleLocked(buf)
			buf = c.out
			c.out = c.spare[:0]
			c.spare = nil
			c.room.Broadcast()
		}
		c.writing = false
		c.mu.Unlock()
	}
}

// release notes that the worker may reuse a block. The notice rides on the
// next frame, or leaves by itself after a short while.
func (c *Conn) release(k wire.Block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	switch n := c.ledger.Return(k); {
	case n >= releaseBatch:
		c.releasesLocked()
		c.flushLocked()
	case !c.timers.releasesArmed:
		c.timers.releasesArmed = true
		c.timers.releases.Reset(releaseDelay)
	}
}

// releasesLocked puts the collected notices in front of the next frame.
func (c *Conn) releasesLocked() { c.out = c.ledger.AppendReturns(c.out) }

func (c *Conn) flushReleases() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers.releasesArmed = false
	if c.err == nil && c.ledger.Returns() {
		c.releasesLocked()
		c.flushLocked()
	}
}

// sendSegmentLocked hands a segment to the worker. Descriptor and frame leave
// in the same order because both happen under mu.
func (c *Conn) sendSegmentLocked(file *os.File, size uint64, number, kind uint32) error {
	if err := channel.SendFiles(c.ch.Descriptors, file); err != nil {
		return err
	}
	c.out = wire.AppendSegment(c.out, number, kind, size)
	return nil
}

// wireLocked returns the number under which the worker knows the segment of
// the arena, handing it over first if need be.
func (c *Conn) wireLocked(a *segment.Arena, index uint32) (uint32, error) {
	known := c.arenas[a]
	for uint32(len(known)) <= index {
		number := uint32(len(c.inputs))
		s := a.SegmentAt(len(known))
		if err := c.sendSegmentLocked(s.File(), s.Size(), number, wire.SegmentInputs); err != nil {
			return 0, err
		}
		c.inputs = append(c.inputs, wireSegment{a, len(known)})
		known = append(known, number)
		c.arenas[a] = known
	}
	return known[index], nil
}
