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
	have   int // of prefix, then of data
	data   []byte
	buffer mem.Buffer
}

// message is one that has come whole.
type message struct {
	buffer     mem.Buffer
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
		if err := c.receive(st, n); err != nil {
			return err
		}
		if err := c.rd.skip(pad); err != nil {
			return err
		}
		if f.flags&flagEndStream != 0 {
			if st.in.have > 0 {
				c.refuse(st, status.New(codes.Internal, "a message ends early"))
			}
			c.halfClosed(st)
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
	return st, !st.deaf
}

// receive reads n bytes of messages.
func (c *conn) receive(st *stream, n int) error {
	in := &st.in
	for n > 0 {
		if in.data == nil {
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
			if in.data == nil {
				continue // it is empty, and has arrived
			}
		}
		k := min(len(in.data)-in.have, n)
		if err := c.rd.full(in.data[in.have : in.have+k]); err != nil {
			return err
		}
		n -= k
		if in.have += k; in.have == len(in.data) {
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
	in.have = 0
	if size <= smallBuffer {
		// The library does not count references of smaller ones.
		in.data = make([]byte, size)
		if st.method.streams || st.small != nil {
			in.buffer = mem.SliceBuffer(in.data)
		} else {
			st.small = in.data
			in.buffer = &st.small
		}
	} else {
		p := mem.DefaultBufferPool().Get(int(size))
		in.data, in.buffer = *p, mem.NewBuffer(p, mem.DefaultBufferPool())
	}
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
	if size == 0 {
		c.arrived(st)
	}
	return true, nil
}

// smallBuffer is up to which size memory is left to the collector.
const smallBuffer = 1 << 10

// arrived hands a whole message to the stream.
func (c *conn) arrived(st *stream) {
	in := &st.in
	m := message{buffer: in.buffer, compressed: in.prefix[0]&1 != 0, size: len(in.data), large: len(in.data) >= largeMessage}
	*in = incoming{}
	c.mu.Lock()
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
	begin := !st.method.streams && !st.begun && !st.deaf
	if begin {
		st.begun = true
		c.handlers++
	}
	c.mu.Unlock()
	if begin {
		c.s.start(st)
		return
	}
	st.signal()
}
