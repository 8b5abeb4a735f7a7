package transport

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/nesoserve/neso/internal/ledger"
)

// rawMost is up to how many bytes go through a system call that the runtime is
// not told of: copying more may keep a processor for too long.
const rawMost = 64 << 10

// socket reads and writes small messages on a connection whose descriptor does
// not block. The runtime prepares for each system call of package net to take
// long; where others want the processors as well, its monitor then often takes
// the call for a long one, and starts a thread in its place. That costs more than
// the call itself, which only copies.
type socket struct {
	raw syscall.RawConn // nil: everything goes through Conn

	in, out         []byte // of the call that is made
	n, m            int
	stuck           bool // the client does not take it at once
	readErr, failed error
	tryRead         func(fd uintptr) bool
	tryWrite        func(fd uintptr) bool
}

// openSocket finds out whether the connection can be used like this.
func (c *conn) openSocket() {
	s := &c.socket
	if !rawCalls {
		return
	}
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	s.raw = raw
	s.tryRead = func(fd uintptr) bool {
		n, errno := readOnce(fd, s.in)
		switch {
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			s.readErr = os.NewSyscallError("read", errno)
		case n == 0:
			s.readErr = io.EOF
		}
		s.n = max(0, n)
		return true
	}
	s.tryWrite = func(fd uintptr) bool {
		for s.m < len(s.out) {
			n, errno := writeOnce(fd, s.out[s.m:])
			switch {
			case errno == syscall.EAGAIN && !s.stuck && !c.holdBack(len(s.out)):
				s.failed = errNoRoom
				return true
			case errno == syscall.EAGAIN:
				s.stuck = true
				return false
			case errno != 0:
				s.failed = os.NewSyscallError("write", errno)
				return true
			}
			s.m += n
		}
		return true
	}
}

// receive reads from the socket. Only the goroutine that net/http reads on may
// call it, as with the connection's fields.
func (c *conn) receive(p []byte) (int, error) {
	s := &c.socket
	if s.raw == nil || len(p) == 0 || len(p) > rawMost {
		return c.Conn.Read(p)
	}
	s.in, s.n, s.readErr = p, 0, nil
	err := s.raw.Read(s.tryRead)
	s.in = nil
	if err == nil {
		err = s.readErr
	}
	return s.n, err
}

// errNoRoom ends a connection whose client does not take its answer from a server
// that is full of such.
var errNoRoom = errors.New("transport: no room for an answer that is not read")

// transmit writes a whole answer.
func (c *conn) transmit(p []byte) (int, error) {
	s := &c.socket
	if s.raw == nil || len(p) > rawMost {
		if !c.holdBack(len(p)) { // whether it goes at once does not show here
			return 0, errNoRoom
		}
		defer c.letGo()
		return c.Write(p)
	}
	s.out, s.m, s.failed, s.stuck = p, 0, nil, false
	err := s.raw.Write(s.tryWrite)
	s.out = nil
	if s.stuck {
		c.letGo()
	}
	if err == nil {
		err = s.failed
	}
	return s.m, err
}

// holdBack counts an answer that the client does not take at once, and bounds
// the time of that; false if there is no room for it.
func (c *conn) holdBack(n int) bool {
	c.boundWrite()
	if c.s.Ledger == nil {
		return true
	}
	c.hold.Open(c.s.Ledger, ledger.Out, nil, c.CutWrites)
	if !c.hold.Take(int64(n)) {
		c.hold.Close()
		return false
	}
	return true
}

// letGo undoes holdBack.
func (c *conn) letGo() {
	c.hold.Close()
	_ = c.SetWriteDeadline(time.Time{})
}

// boundWrite gives a write the time that a request has.
func (c *conn) boundWrite() {
	if d := c.s.ReadTimeout; d > 0 {
		_ = c.SetWriteDeadline(time.Now().Add(d))
	}
}
