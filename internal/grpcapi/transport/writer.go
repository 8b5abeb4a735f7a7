package transport

import (
	"encoding/binary"
	"net"
	"runtime"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/ledger"
)

// keepOut is how much of a write buffer is kept for the next write.
const keepOut = 128 << 10

// flushLocked writes what is in out, unless somebody is writing: then he will.
// It lets go of the lock while it writes.
func (c *conn) flushLocked() {
	if c.writing || c.closed {
		return
	}
	c.writing = true
	if c.handlers > 1 {
		// Others may be about to answer: one write, and one wake-up of the client, for
		// all of them.
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	c.writeLocked(nil)
}

// writeLocked writes out, then more, then what has been added to out meanwhile.
// The caller has set writing; it is reset at the end.
func (c *conn) writeLocked(more net.Buffers) {
	for (len(c.out) > 0 || len(more) > 0) && !c.closed {
		buf := c.out
		c.out, c.spare = c.spare[:0], nil
		if c.rooms.first != nil {
			c.passOnLocked()
		}
		within := c.s.o.Patience
		if c.hurry {
			within = farewellTime
		}
		c.mu.Unlock()
		err := c.write(buf, more, within)
		more = nil
		c.mu.Lock()
		if cap(buf) <= keepOut {
			c.spare = buf
		}
		if c.outHeld > 0 && len(c.out) <= freeOut {
			c.emptiedLocked()
		}
		if err != nil {
			c.mu.Unlock()
			c.close()
			c.mu.Lock()
		}
		if c.choked.Load() {
			c.changed.Broadcast()
		}
	}
	c.writing = false
	c.changed.Broadcast()
	c.passOnLocked()
}

// write writes buf, then more, in one piece: at most some MiB, see maxWrite and
// maxOut. A client that takes longer than within for it gets an error.
func (c *conn) write(buf []byte, more net.Buffers, within time.Duration) error {
	if c.sock == nil {
		if err := c.nc.SetWriteDeadline(time.Now().Add(within)); err != nil {
			return err
		}
	}
	if c.within.Load() != int64(within) {
		c.within.Store(int64(within))
	}
	if len(more) == 0 {
		_, err := c.nc.Write(buf)
		return err
	}
	if len(buf) > 0 {
		more = append(net.Buffers{buf}, more...)
	}
	if c.sock != nil && c.s.o.TLS == nil {
		_, err := c.sock.WriteParts(more)
		return err
	}
	_, err := more.WriteTo(c.nc)
	return err
}

// full is called when the socket takes nothing more: only then there is a look at
// the clock. With TLS that may be a reply to the client's change of keys, which the
// reader writes.
func (c *conn) full() error {
	within := time.Duration(c.within.Load())
	if within == 0 {
		return nil // the handshake has its own bound
	}
	c.armed = true
	return c.sock.SetWriteDeadline(time.Now().Add(within))
}

// written ends what full began, at the end of the same write.
func (c *conn) written() {
	if c.armed {
		c.armed = false
		_ = c.sock.SetWriteDeadline(time.Time{}) // a closed connection tells when it is written
	}
}

// kickLocked has out written by somebody else: the reader must not wait for a
// client that does not read. It reads no further while out is full.
func (c *conn) kickLocked() {
	if len(c.out) > maxOut {
		c.choked.Store(true)
	}
	if !c.writing && !c.closed && !c.kicked {
		c.kicked = true
		c.s.running.Go(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.kicked = false
			c.flushLocked()
		})
	}
}

// maxControl bounds the answers to a client's own frames that it does not read.
const maxControl = 4 * maxOut

// control appends a frame of the reader's.
func (c *conn) control(add func(b []byte) []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) > maxControl {
		return fault(codeEnhanceCalm, "too many frames that ask for an answer")
	}
	c.out = add(c.out)
	c.kickLocked()
	return nil
}

// smallAnswer is what is copied into out: a write of its own costs more.
const smallAnswer = 16 << 10

// payload is a message to send; parts are borrowed.
type payload struct {
	parts      mem.BufferSlice
	size       int
	compressed bool
	plain      bool        // no message, but the body of an answer of HTTP
	held       ledger.Room // see Held
}

func plainParts(text string) mem.BufferSlice { return mem.BufferSlice{mem.SliceBuffer(text)} }

// prefixSize is what stands before each message: whether it is compressed, and
// its length.
const prefixSize = 5

func (p *payload) appendPrefix(b []byte) []byte {
	if p.plain {
		return b
	}
	flag := byte(0)
	if p.compressed {
		flag = 1
	}
	return binary.BigEndian.AppendUint32(append(b, flag), uint32(p.size))
}

// sendLocked appends head, and sends a message if there is one. It waits for
// the client to make room, and reports whether the stream can still be written
// to. What is small is left in out, for the caller to flush. A status that is
// not nil ends the call after the message, and may leave with its last bytes.
func (c *conn) sendLocked(st *stream, head func(b []byte) []byte, p *payload, end *status.Status) bool {
	c.spokenLocked()
	w := wait{within: c.s.o.Patience}
	if !c.takeRoomLocked() {
		room := c.awaitRoomLocked(st, &w)
		w.stop()
		if !room {
			c.passOnLocked()
			return false
		}
		defer c.passOnLocked()
	}
	if !c.openLocked(st) {
		return false
	}
	if head != nil {
		c.out = head(c.out)
	}
	if p == nil {
		return true
	}
	size := p.size
	if !p.plain {
		size += prefixSize
	}
	if size > smallAnswer || size > c.maxFrame || int64(size) > c.roomLocked(st) {
		message := append(mem.BufferSlice{mem.SliceBuffer(p.appendPrefix(nil))}, p.parts...)
		return c.sendLargeLocked(st, message, size, p, end)
	}
	c.earnLocked(creditData)
	c.send.Spend(int64(size))
	st.send.Spend(int64(size))
	c.out = p.appendPrefix(appendFrameHead(c.out, size, frameData, 0, st.id))
	for _, b := range p.parts {
		c.out = append(c.out, b.ReadOnlyData()...)
	}
	return true
}

// spokenLocked notes that data is sent: clients may ping to learn how much is
// under way.
func (c *conn) spokenLocked() {
	if c.quiet.Load() {
		c.quiet.Store(false)
	}
}

// openLocked reports whether the stream can still be written to.
func (c *conn) openLocked(st *stream) bool { return !c.closed && !st.reset }

// roomLocked returns how many bytes the client takes on the stream.
func (c *conn) roomLocked(st *stream) int64 { return min(c.send.Left(), st.send.Left()) }

// maxWrite is what one write takes of a large message, so that others get their
// turn.
const maxWrite = 2 << 20

// callCost is what a call that waits holds besides its answer, about.
const callCost = 8 << 10

// sendLargeLocked writes a message from where it lies. What it holds meanwhile is
// counted; it ends when the client does not make room in time.
func (c *conn) sendLargeLocked(st *stream, message mem.BufferSlice, size int, p *payload, end *status.Status) bool {
	at := cursor{message: message}
	began, whole, given := time.Now(), size, int64(0)
	w := wait{within: c.s.o.Patience}
	defer w.stop()
	var hold ledger.Hold
	hold.Open(c.s.o.Ledger, ledger.Out, &c.share, func() { c.s.running.Go(func() { c.cutAnswer(st) }) })
	defer hold.Close()
	hold.For(st.key())
	if n := int64(size) + callCost; p.held.Bytes > 0 {
		hold.Adopt(p.held.On, p.held.By, p.held.Bytes, n)
		p.held = ledger.Room{}
	} else if hold.Whole(n); !hold.Take(n) {
		c.finishLocked(st, status.New(codes.ResourceExhausted, hold.Refusal(n).Message))
		c.passOnLocked()
		return false
	}
	for size > 0 {
		for c.openLocked(st) && !w.late && (c.writing || c.roomLocked(st) <= 0) {
			if len(c.out) > 0 && !c.writing {
				c.flushLocked() // the head must leave, or the client never makes room
				continue
			}
			if !c.writing {
				c.takeOver(0) // somebody has to read what makes room
			}
			if st.send.Left() <= 0 {
				c.passOnLocked()
				c.parkLocked(st, nil, &w)
			} else {
				c.parkLocked(st, &c.turns, &w)
			}
		}
		if w.late {
			c.stallLocked(st)
		}
		if !c.openLocked(st) {
			c.passOnLocked()
			return false
		}
		n := int(min(int64(size), c.roomLocked(st), maxWrite))
		c.send.Spend(int64(n))
		st.send.Spend(int64(n))
		size -= n
		frames := (n + c.maxFrame - 1) / c.maxFrame
		heads := make([]byte, 0, frames*frameHeaderSize)
		parts := make(net.Buffers, 0, 2*frames+len(message)+1)
		for n > 0 {
			k := min(n, c.maxFrame)
			n -= k
			start := len(heads)
			heads = appendFrameHead(heads, k, frameData, 0, st.id)
			parts = append(parts, heads[start:])
			parts = at.take(parts, k)
		}
		c.earnLocked(creditData * frames)
		if size == 0 && end != nil {
			before := c.out
			c.out = nil
			c.finishLocked(st, end)
			parts = append(parts, c.out)
			c.out = before
		}
		c.writing, st.writing = true, true
		c.writeLocked(parts)
		st.writing = false
		c.spokenLocked()
		if size > 0 {
			moved := int64(whole - size)
			hold.Give(moved - given)
			given = moved
			now := time.Now()
			w.reset(ledger.Until(began, now, c.s.o.Patience, moved).Sub(now))
		}
	}
	return c.openLocked(st)
}

// cutAnswer ends a call whose answer has stood still while others needed its
// room.
func (c *conn) cutAnswer(st *stream) {
	c.mu.Lock()
	stuck := st.writing // and so are all other answers of the connection
	if !stuck {
		c.stallLocked(st)
	}
	c.mu.Unlock()
	if stuck {
		c.close()
	}
}

// cursor is a place in a message.
type cursor struct {
	message mem.BufferSlice
	off     int // in the first of message
}

// take appends the next n bytes.
func (x *cursor) take(parts net.Buffers, n int) net.Buffers {
	for n > 0 {
		b := x.message[0].ReadOnlyData()[x.off:]
		if len(b) > n {
			b = b[:n]
			x.off += n
		} else {
			x.message, x.off = x.message[1:], 0
		}
		if len(b) > 0 {
			parts = append(parts, b)
		}
		n -= len(b)
	}
	return parts
}
