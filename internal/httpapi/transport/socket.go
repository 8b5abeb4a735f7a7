package transport

import (
	"errors"
	"time"

	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/rawsocket"
)

// rawMost is up to how many bytes go through a system call that the runtime is
// not told of, see package rawsocket: copying more may keep a processor for too
// long.
const rawMost = 64 << 10

// openSocket finds out whether the connection can be used like this.
func (c *conn) openSocket() {
	if c.raw = rawsocket.New(c.Conn); c.raw != nil {
		c.raw.Full = c.full
	}
}

// receive reads from the socket. Only the goroutine that net/http reads on may
// call it, as with the connection's fields.
func (c *conn) receive(p []byte) (int, error) {
	if len(p) == 0 { // Windows would wait until there is something to read
		return 0, nil
	}
	if c.raw == nil || len(p) > rawMost {
		return c.Conn.Read(p)
	}
	return c.raw.Read(p)
}

// errNoRoom ends a connection whose client does not take its answer from a server
// that is full of such.
var errNoRoom = errors.New("transport: no room for an answer that is not read")

// transmit writes a whole answer.
func (c *conn) transmit(p []byte) (int, error) {
	if c.raw == nil || len(p) > rawMost {
		if !c.holdBack(len(p)) { // whether it goes at once does not show here
			return 0, errNoRoom
		}
		defer c.letGo()
		return c.Write(p)
	}
	c.sending, c.stuck = len(p), false
	n, err := c.raw.Write(p)
	if c.stuck {
		c.letGo()
	}
	return n, err
}

// full is called when the client does not take an answer at once.
func (c *conn) full() error {
	if !c.holdBack(c.sending) {
		return errNoRoom
	}
	c.stuck = true
	return nil
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
		_ = c.hold.Refusal(int64(n)) // counted; there is nobody to tell
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
