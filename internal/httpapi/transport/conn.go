package transport

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/rawsocket"
)

const (
	// headRoom is how long a head may be to be a hot one, in bytes.
	headRoom = 4 << 10
	// mostHead is up to which length a head is looked at. A longer one leaves its
	// connection to net/http, as does one that is too long for that.
	mostHead = 64 << 10
)

// mode says who has the word on a connection.
type mode uint8

const (
	// boundary: all messages so far have been answered, and net/http waits for a
	// byte of the next one.
	boundary mode = iota
	// message: net/http has one message, of which `left` bytes are still to be
	// handed up.
	message
	// handed: the connection is net/http's for good.
	handed
)

// What Close finds a connection doing.
const (
	idle    = iota // nothing here
	busy           // it serves a hot request
	parting        // as well, and has been closed meanwhile
)

// conn is a connection as net/http sees it. Its fields belong to the goroutine
// on which net/http reads; that is not always the same one, but there is one at
// a time.
type conn struct {
	net.Conn
	writeHalf interface{ CloseWrite() error }
	s         *Server
	base      context.Context // of all its requests
	use       atomic.Int32
	raw       *rawsocket.Conn // nil: everything goes through Conn
	hold      ledger.Hold     // of an answer that the client does not take at once
	sending   int             // bytes of the answer that is being written
	stuck     bool            // it is held

	mode mode
	left int64
	buf  []byte // read and not yet used: buf[r:w]
	r, w int
	head head   // of the message at buf[r]
	text string // the head of what net/http serves, if it is known; while it does
	spy  spy    // of a connection that is handed

	armed time.Time // the deadline of reads on the socket
	begun time.Time // when net/http asked for the first byte
	since time.Time // when the latest hot request ended; zero: none since net/http has set a deadline
	fresh bool      // net/http has begun, and has not been given anything
	late  time.Duration
	abort chan struct{} // one place: net/http takes back its background read

	x *exchange // made for the first hot request
}

func newConn(c net.Conn, writeHalf interface{ CloseWrite() error }, s *Server) *conn {
	return &conn{Conn: c, writeHalf: writeHalf, s: s, abort: make(chan struct{}, 1)}
}

// Read gives net/http what it may see.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case c.mode == boundary:
		return c.next(p)
	case c.mode == message && c.left == 0:
		return 0, c.tail()
	case c.mode == message:
		n, err := c.pass(p[:min(int64(len(p)), c.left)])
		c.left -= int64(n)
		return n, err
	}
	n, err := c.pass(p)
	if c.spy.on && len(p) > 1 { // else it is read in the background
		c.overhear(p[:n])
	}
	return n, err
}

// pass reads what is buffered, then from the socket.
func (c *conn) pass(p []byte) (int, error) {
	if c.r < c.w {
		n := copy(p, c.buf[c.r:c.w])
		c.r += n
		if c.mode == handed && c.r == c.w {
			c.buf, c.r, c.w = nil, 0, 0 // nothing is read into it any more, and it may have grown
		}
		return n, nil
	}
	return c.receive(p)
}

// next serves hot requests until something comes that is net/http's.
func (c *conn) next(p []byte) (int, error) {
	if c.buf == nil {
		c.buf = make([]byte, headRoom)
		c.openSocket()
		c.fresh, c.begun = true, time.Now()
	}
	for {
		v, err := c.look()
		if err != nil {
			return 0, err
		}
		switch v {
		case isHot:
			if !c.serve() {
				return 0, io.EOF
			}
			continue
		case isPlain:
			c.mode, c.left = message, int64(c.head.size)+max(0, c.head.length)
			c.text = string(c.buf[c.r : c.r+c.head.size])
			select {
			case <-c.abort: // meant for the message before
			default:
			}
		default:
			c.mode = handed
			c.text = whole(c.buf[c.r:c.w])
		}
		c.catchUp()
		return c.Read(p)
	}
}

// look reads until it knows what the next message is.
func (c *conn) look() (verdict, error) {
	if c.r == c.w {
		if err := c.await(); err != nil {
			return 0, err
		}
	}
	if c.x != nil && c.x.again(c.buf[c.r:c.w]) {
		return isHot, nil
	}
	var skipped bool
	if !c.since.IsZero() {
		var err error
		if skipped, err = c.skip(); err != nil {
			return 0, err
		}
	}
	c.head = head{length: noLength}
	for first := true; ; first = false {
		switch v := c.head.parse(c.buf[c.r:c.w], c.s.hot); {
		case v == isHot && c.head.size > headRoom:
			return isPlain, nil
		case v != isPart:
			return v, nil
		}
		c.makeRoom()
		if c.w == len(c.buf) && !c.grow() {
			return isOdd, nil
		}
		if first && (!c.fresh || !c.since.IsZero()) { // else net/http has armed it
			c.arm(c.s.headerTimeout())
		}
		n, err := c.receive(c.buf[c.w:])
		c.w += n
		switch {
		case n > 0:
		case isTimeout(err):
			return 0, err
		case err != nil:
			if skipped {
				c.unskip()
			}
			return isOdd, nil // net/http has an answer to the part that came
		}
	}
}

// peeked is how many bytes net/http waits for between messages. Fewer, and then
// the end, are nothing to it.
const peeked = 4

// skip does after a hot request what net/http does after a POST request: it
// waits for four bytes, and passes over ends of lines among them, if there are
// any.
func (c *conn) skip() (skipped bool, err error) {
	for c.w-c.r < peeked {
		if err := c.await(); err != nil {
			return false, err
		}
	}
	for end := c.r + peeked; c.r < end && (c.buf[c.r] == '\r' || c.buf[c.r] == '\n'); {
		c.r++
		skipped = true
	}
	return skipped, nil
}

// unskip puts ends of lines before the few bytes that came last, so that
// net/http, which has not seen those that were there, answers them.
func (c *conn) unskip() {
	const lines = "\r\n\r\n"
	if n := c.w - c.r; n > 0 && n < peeked {
		copy(c.buf[len(lines):], c.buf[c.r:c.w])
		copy(c.buf, lines)
		c.r, c.w = 0, len(lines)+n
	}
}

// makeRoom moves what is buffered to the beginning of the buffer.
func (c *conn) makeRoom() {
	if c.r > 0 {
		c.r, c.w = 0, copy(c.buf, c.buf[c.r:c.w])
	}
}

// grow makes the buffer larger, for a head that is longer than most; false for one
// that is too long.
func (c *conn) grow() bool {
	most := mostHead
	if n := c.s.MaxHeaderBytes; n > 0 {
		most = min(most, n)
	}
	if len(c.buf) >= most {
		return false
	}
	c.resize(min(2*len(c.buf), most))
	return true
}

// resize has a buffer of n bytes from now on, which hold what is buffered.
func (c *conn) resize(n int) {
	buf := make([]byte, n)
	c.r, c.w = 0, copy(buf, c.buf[c.r:c.w])
	c.buf = buf
}

// tail is the read in the background by which net/http learns that the client
// is gone. What comes is the next message and not for it to see: then nothing
// is to be learnt any more, and it waits to be taken back.
func (c *conn) tail() error {
	if c.r == c.w {
		n, err := c.Conn.Read(c.buf)
		if n == 0 {
			return err
		}
		c.r, c.w = 0, n
	}
	<-c.abort
	return errAborted
}

// answered is called when net/http has answered a message and waits for the
// next.
func (c *conn) answered() {
	c.text = ""
	switch {
	case c.mode == handed:
		c.spy = spy{on: true}
	case c.mode != message:
	case c.left == 0:
		c.mode = boundary
		if len(c.buf) > headRoom && c.w-c.r <= headRoom {
			c.resize(headRoom)
		}
	default: // it has found another end than we did
		c.mode = handed
		_ = c.Conn.Close()
	}
}

// Close ends the connection, with the answer to the hot request in flight if
// there is one.
func (c *conn) Close() error {
	if c.use.Load() != idle && c.s.part(c) {
		return nil
	}
	c.wake()
	return c.Conn.Close()
}

// CutReads and CutWrites end what is being read or written, from any goroutine.
// The connection must end then: the deadlines it thinks it has are others.
func (c *conn) CutReads() { _ = c.Conn.SetReadDeadline(past) }

// CutWrites is CutReads for what is being written.
func (c *conn) CutWrites() { _ = c.SetWriteDeadline(past) }

// CloseWrite is what net/http does before it lingers.
func (c *conn) CloseWrite() error { return c.writeHalf.CloseWrite() }

func (c *conn) wake() {
	select {
	case c.abort <- struct{}{}:
	default:
	}
}

// errAborted is what net/http expects of the read that it takes back.
var errAborted net.Error = abortError{}

type abortError struct{}

func (abortError) Error() string   { return "transport: read taken back" }
func (abortError) Timeout() bool   { return true }
func (abortError) Temporary() bool { return true }
