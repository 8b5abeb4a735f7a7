package transport

import "time"

// Frames that move no call forward cost the server more than the client, so a
// client has only so many of them: a point for each, more for those that cost
// more. Points come back with the time, and with what calls for such frames: an
// answered call may have been reset by the client, a frame of data is answered
// by updates of windows. Who has none left is sent away.
const (
	pointTime  = time.Millisecond // until a point comes back
	mostPoints = 10_000

	costFrame    = 1  // PRIORITY, empty DATA, WINDOW_UPDATE, CONTINUATION, PING, unknown kinds; RST_STREAM
	costSettings = 10 // each is answered, and looks at all streams
	costReset    = 10 // a stream that the client has made the server reset
	creditData   = 3  // updates of two windows and a ping
	creditCall   = 2
)

// spendLocked takes points off.
func (c *conn) spendLocked(points int) error {
	now := time.Duration(c.lastRead.Load())
	c.debt = max(c.debt, now-mostPoints*pointTime) + time.Duration(points)*pointTime
	if c.debt > now {
		return fault(codeEnhanceCalm, "too many frames that move no call forward")
	}
	return nil
}

func (c *conn) spend(points int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spendLocked(points)
}

// earnLocked gives points back.
func (c *conn) earnLocked(points int) { c.debt -= time.Duration(points) * pointTime }
