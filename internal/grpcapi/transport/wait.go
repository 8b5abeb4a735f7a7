package transport

import (
	"time"

	"github.com/nesoserve/neso/internal/ledger"
)

// line are streams whose senders wait for what all of the connection share, in
// the order in which they came. Each has its place in one line at most.
type line struct{ first, last *stream }

func (l *line) push(st *stream, front bool) {
	st.line = l
	switch {
	case l.first == nil:
		l.first, l.last = st, st
	case front:
		st.behind, l.first.before = l.first, st
		l.first = st
	default:
		st.before, l.last.behind = l.last, st
		l.last = st
	}
}

func (st *stream) leaveLine() {
	l := st.line
	if l == nil {
		return
	}
	if st.before != nil {
		st.before.behind = st.behind
	} else {
		l.first = st.behind
	}
	if st.behind != nil {
		st.behind.before = st.before
	} else {
		l.last = st.before
	}
	st.line, st.before, st.behind = nil, nil, nil
}

// wait is one sender's waiting: for room in out, for its turn to write, for room
// in the window of the connection or of its stream. It ends when it is done, or
// when the time for it is up.
type wait struct {
	timer  *time.Timer
	within time.Duration
	waited bool
	late   bool
}

// parkLocked waits until the stream is woken. l is nil for a stream that waits
// for what is its own.
func (c *conn) parkLocked(st *stream, l *line, w *wait) {
	if w.timer == nil {
		w.timer = time.NewTimer(w.within)
	}
	if st.wake == nil {
		st.wake = make(chan struct{}, 1)
	}
	if l != nil {
		l.push(st, w.waited) // who was first in line stays first
	}
	c.mu.Unlock()
	select {
	case <-st.wake:
	case <-w.timer.C:
		w.late = true
	}
	c.mu.Lock()
	c.wakes++
	w.waited = l != nil
	st.leaveLine()
}

// reset gives the sender so long from now on.
func (w *wait) reset(within time.Duration) {
	w.within = within
	if w.timer != nil {
		w.timer.Reset(within)
	}
}

func (w *wait) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// wakeLocked wakes the sender of a stream.
func (st *stream) wakeLocked() {
	if st.wake == nil {
		return
	}
	select {
	case st.wake <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// passOnLocked wakes the next in the lines, if there is something for them. It
// has to be called by whoever makes room or ends a write, and by whoever was
// woken and does not use it.
func (c *conn) passOnLocked() {
	if st := c.turns.first; st != nil && !c.writing && c.send.Left() > 0 {
		st.wakeLocked()
	}
	if st := c.rooms.first; st != nil && len(c.out) <= maxOut/2 {
		st.wakeLocked()
	}
}

// takeRoomLocked counts what out holds beyond a part that every connection has,
// and reports whether it takes more.
func (c *conn) takeRoomLocked() bool {
	n := int64(len(c.out))
	switch {
	case n <= freeOut || c.closed: // nothing is added to what is closed, and nobody would give back
		return true
	case n > maxOut:
		return false
	case n <= c.outHeld:
		return true
	}
	if !c.s.o.Ledger.Take(ledger.Out, outStep) {
		return false
	}
	c.outHeld = max(c.outHeld, freeOut) + outStep
	return true
}

const (
	freeOut = 64 << 10
	outStep = 64 << 10
)

// emptiedLocked gives back what was counted for out.
func (c *conn) emptiedLocked() {
	if c.outHeld > 0 {
		c.s.o.Ledger.Give(ledger.Out, c.outHeld-freeOut)
		c.outHeld = 0
	}
}

// awaitRoomLocked waits for room in out. It reports whether the stream can still
// be written to.
func (c *conn) awaitRoomLocked(st *stream, w *wait) bool {
	for c.openLocked(st) && !w.late && !c.takeRoomLocked() {
		c.parkLocked(st, &c.rooms, w)
	}
	if w.late {
		c.stallLocked(st)
	}
	return c.openLocked(st)
}

// breathe has the reader wait until the client has read what was answered
// without a handler: who asks without reading is read no further. It ends with
// the connection, whose writer does not wait forever.
func (c *conn) breathe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) > maxOut/2 && !c.closed {
		c.changed.Wait()
	}
	c.choked.Store(false)
}
