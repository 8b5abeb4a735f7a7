package transport

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/ledger"
)

// hasteLocked notes that n more bytes of a stream have come: a message that has
// begun has so long to come as ledger.Until gives it.
func (c *conn) hasteLocked(st *stream, n int) {
	if !st.in.begun && st.in.have == 0 {
		return
	}
	c.clockLocked(st)
	st.came += int64(n)
	now := time.Now()
	st.due = ledger.Until(st.start, now, c.s.o.Patience, st.came)
}

// clockLocked has the time of a message begin, unless it has.
func (c *conn) clockLocked(st *stream) {
	if st.due.IsZero() {
		st.start, st.came = time.Now(), 0
		st.due = st.start.Add(c.s.o.Patience)
	}
	if c.timers[timerSlow] == nil {
		c.afterLocked(timerSlow, c.s.o.Patience, c.overdue)
	}
}

// overdue ends calls whose messages do not come in time.
func (c *conn) overdue() {
	now := time.Now()
	var late []*stream
	stuck, any := false, false
	c.mu.Lock()
	for _, st := range c.streams {
		if st.due.IsZero() {
			continue
		}
		any = true
		switch {
		case now.Before(st.due):
		case !st.filling:
			late = append(late, st)
		case now.After(st.due.Add(c.s.o.Patience)):
			stuck = true // in the middle of a frame: no other call gets anything either
		}
	}
	c.timers[timerSlow] = nil
	if any {
		c.afterLocked(timerSlow, max(c.s.o.Patience/4, time.Millisecond), c.overdue)
	}
	c.mu.Unlock()
	if stuck {
		c.close()
		return
	}
	for _, st := range late {
		c.refuse(st, status.New(codes.DeadlineExceeded, "the message did not arrive in time"))
	}
}

// stallLocked ends a call whose client does not take the answer.
func (c *conn) stallLocked(st *stream) {
	if c.openLocked(st) {
		c.finishLocked(st, status.New(codes.DeadlineExceeded, "the client did not take the answer in time"))
		c.kickLocked()
		c.s.running.Go(func() { st.abort(context.Canceled) })
	}
}
