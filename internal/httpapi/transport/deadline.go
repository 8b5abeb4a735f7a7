package transport

import (
	"errors"
	"net"
	"time"
)

// await waits for a byte between messages. Deadlines are not moved with each
// request: one that passes is looked at then.
func (c *conn) await() error {
	c.makeRoom()
	for {
		n, err := c.receive(c.buf[c.w:])
		if n > 0 {
			c.w += n
			return nil
		}
		if c.since.IsZero() || !isTimeout(err) {
			return err
		}
		idle := c.s.idleTimeout()
		if idle > 0 && time.Since(c.since) >= idle {
			return err
		}
		c.armAt(c.idleEnd(idle))
	}
}

// idleEnd is when a client has been silent for too long.
func (c *conn) idleEnd(idle time.Duration) time.Time {
	if idle <= 0 {
		return time.Time{}
	}
	return c.since.Add(idle)
}

// arm bounds reads by a duration from now; 0 ends that.
func (c *conn) arm(d time.Duration) {
	if d <= 0 {
		c.armAt(time.Time{})
		return
	}
	c.armAt(time.Now().Add(d))
}

func (c *conn) armAt(t time.Time) {
	if !c.armed.Equal(t) {
		c.armed = t
		_ = c.Conn.SetReadDeadline(t) // a closed connection tells when it is read
	}
}

// catchUp prepares for net/http to go on after hot requests it knows nothing
// about. At the beginning of a connection it has begun to measure the time of
// the request when it asked for it.
func (c *conn) catchUp() {
	if c.fresh && !c.since.IsZero() {
		c.late = time.Since(c.begun)
		c.arm(c.s.headerTimeout())
	}
	c.fresh, c.since = false, time.Time{}
}

// SetReadDeadline is for net/http, and for handlers of what it has been handed.
func (c *conn) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		t = t.Add(c.late)
		if !t.After(time.Now()) {
			c.wake()
		}
	}
	c.late = 0
	c.armed = t
	return c.Conn.SetReadDeadline(t)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
