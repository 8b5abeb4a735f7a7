package transport

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// incoming is a message on its way in. Only the reader touches it.
type incoming struct {
	prefix [prefixSize]byte
	have   int // of prefix
	begun  bool
	parts  mem.BufferSlice
	rest   []byte // what is empty of the present part
	next   int    // the part after it
	size   int
	left   int // bytes that have not come yet
}

// advance passes over n bytes of the present part that have come.
func (in *incoming) advance(n int) {
	in.left -= n
	in.rest = in.rest[n:]
	for len(in.rest) == 0 && in.next < len(in.parts) {
		in.rest = in.parts[in.next].ReadOnlyData()
		in.next++
	}
}

// message is one that has come whole.
type message struct {
	parts      mem.BufferSlice
	compressed bool
	size       int
	large      bool // counted in Server.buffered
}

// largeMessage is from which size on messages are counted in Server.buffered.
const largeMessage = 64 << 10

// data takes a DATA frame.
func (c *conn) data(f frameHead) error {
	n, pad := f.length, 0
	if f.flags&flagPadded != 0 {
		b, err := c.rd.next(1)
		if err != nil {
			return err
		}
		pad = int(b[0])
		n--
	}
	if n -= pad; n < 0 || f.stream == 0 {
		return fault(codeProtocol, "DATA that cannot be")
	}
	if c.window -= int64(f.length); c.window < 0 {
		return fault(codeFlowControl, "DATA beyond the connection's window")
	}
	c.unread += int64(f.length)
	st, ok := c.charge(f)
	switch {
	case st == nil && f.stream > c.lastID:
		return fault(codeProtocol, "DATA of a stream that is not open")
	case !ok:
		if err := c.rd.skip(n + pad); err != nil {
			return err
		}
	default:
		err := c.receive(st, n)
		if err == nil {
			err = c.rd.skip(pad)
		}
		if err != nil {
			c.filled(st)
			return err
		}
		if f.flags&flagEndStream != 0 {
			if st.in.have > 0 || st.in.begun {
				c.refuse(st, status.New(codes.Internal, "a message ends early"))
			}
			c.halfClosed(st)
		} else {
			c.filled(st)
		}
	}
	if c.unread < int64(c.s.o.ConnWindow)/4 {
		return nil
	}
	back := c.unread
	c.window += back
	c.unread = 0
	return c.control(func(b []byte) []byte { return appendWindowUpdate(b, 0, back) })
}

// charge takes a frame off the window of its stream. ok says that its payload is
// wanted.
func (c *conn) charge(f frameHead) (st *stream, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st = c.streams[f.stream]
	if st == nil {
		return nil, false
	}
	if st.clientDone {
		c.resetLocked(st, codeStreamClosed)
		return st, false
	}
	if st.window -= int64(f.length); st.window < 0 {
		c.resetLocked(st, codeFlowControl)
		return st, false
	}
	if st.deaf {
		return st, false
	}
	st.filling = true
	return st, true
}

// filled ends what charge began.
func (c *conn) filled(st *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st.filledLocked()
}

func (st *stream) filledLocked() {
	if st.filling = false; st.deaf || st.c.closed {
		st.letGoLocked()
	}
}

// letGoLocked gives back what a stream that has ended holds of a message that
// has not come whole, and what is counted for its messages. The reader must not
// be at it.
func (st *stream) letGoLocked() {
	st.in.parts.Free()
	st.in.parts, st.in.rest = nil, nil
	st.c.s.buffered.Add(-st.held)
	st.held = 0
}

// receive reads n bytes of messages.
func (c *conn) receive(st *stream, n int) error {
	in := &st.in
	for n > 0 {
		if !in.begun {
			k := min(prefixSize-in.have, n)
			if err := c.rd.full(in.prefix[in.have : in.have+k]); err != nil {
				return err
			}
			n -= k
			if in.have += k; in.have < prefixSize {
				return nil
			}
			if ok, err := c.expect(st, n); err != nil {
				return err
			} else if !ok {
				return c.rd.skip(n)
			}
			if !in.begun {
				continue // it is empty, and has arrived
			}
		}
		k := min(len(in.rest), n)
		if err := c.rd.full(in.rest[:k]); err != nil {
			return err
		}
		n -= k
		if in.advance(k); in.left == 0 {
			c.arrived(st)
		}
	}
	return nil
}

// expect makes room for the message whose prefix has come; n bytes of it are in
// the present frame at most. It reports false for one that is refused.
func (c *conn) expect(st *stream, n int) (bool, error) {
	in := &st.in
	size := int64(binary.BigEndian.Uint32(in.prefix[1:]))
	if size > int64(c.s.o.MaxMessage) {
		c.refuse(st, status.New(codes.ResourceExhausted, fmt.Sprintf("grpc: received message larger than max (%d vs. %d)", size, c.s.o.MaxMessage)))
		return false, nil
	}
	if size >= largeMessage {
		if total := c.s.buffered.Add(size); c.s.o.MaxBuffered > 0 && total > c.s.o.MaxBuffered {
			c.s.buffered.Add(-size)
			c.refuse(st, status.New(codes.ResourceExhausted, fmt.Sprintf("the server holds %d bytes of messages that are being received, at most %d", total-size, c.s.o.MaxBuffered)))
			return false, nil
		}
	}
	in.begun, in.size, in.left = true, int(size), int(size)
	c.mu.Lock()
	if size >= largeMessage {
		st.held += size
	}
	more := max(0, size-int64(n)-st.window)
	st.window += more
	st.extra += more
	c.mu.Unlock()
	if more > 0 {
		if err := c.control(func(b []byte) []byte { return appendWindowUpdate(b, st.id, more) }); err != nil {
			return false, err
		}
	}
	if err := c.room(st, n); err != nil {
		return false, err
	}
	if in.advance(0); size == 0 {
		c.arrived(st)
	}
	return true, nil
}

// smallBuffer is up to which size memory is left to the collector.
const smallBuffer = 1 << 10

// PlaceHead is how much Options.Place sees of a message, in bytes.
const PlaceHead = 1 << 10

// room makes the memory for the message that begins, of which n bytes are in the
// present frame at most.
func (c *conn) room(st *stream, n int) error {
	in := &st.in
	if in.size <= smallBuffer {
		// The library does not count references of smaller ones.
		b := make([]byte, in.size)
		if st.method.streams || st.whole[0] != nil {
			in.parts = mem.BufferSlice{mem.SliceBuffer(b)}
			return nil
		}
		st.small = b
		st.whole[0] = &st.small
		in.parts = st.whole[:]
		return nil
	}
	if in.size >= largeMessage && c.s.o.Place != nil && in.prefix[0]&1 == 0 {
		head, err := c.rd.peek(min(n, PlaceHead))
		if err != nil {
			return err
		}
		if in.parts = c.s.o.Place(st.method.name, head, in.size); in.parts != nil {
			return nil
		}
	}
	p := mem.DefaultBufferPool().Get(in.size)
	in.parts = mem.BufferSlice{mem.NewBuffer(p, mem.DefaultBufferPool())}
	return nil
}

// arrived hands a whole message to the stream.
func (c *conn) arrived(st *stream) {
	in := &st.in
	m := message{parts: in.parts, compressed: in.prefix[0]&1 != 0, size: in.size, large: in.size >= largeMessage}
	c.mu.Lock()
	*in = incoming{}
	switch {
	case st.deaf:
		st.dropLocked(m)
	case !st.method.streams && st.inbox.n > 0:
		c.mu.Unlock()
		c.refuse(st, status.New(codes.Internal, "a unary call with more than one message"))
		c.mu.Lock()
		st.dropLocked(m)
	default:
		st.inbox.push(m)
	}
	c.mu.Unlock()
	st.signal()
}

// halfClosed says that the client sends nothing more on a stream.
func (c *conn) halfClosed(st *stream) {
	c.mu.Lock()
	st.clientDone = true
	st.filledLocked()
	begin := !st.method.streams && !st.begun && !st.deaf
	if begin {
		st.begun = true
		c.handlers++
		c.ready, c.alone = st, c.handlers == 1 && len(c.streams) == 1
	}
	c.mu.Unlock()
	if begin {
		return
	}
	st.signal()
}
