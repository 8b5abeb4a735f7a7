package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how often a connection is looked at while hot requests come. One
// that runs at two looks has its client watched, so that it is cancelled when
// the client goes; to watch each of them would cost more than most of them take.
const patience = 50 * time.Millisecond

// The phases of watch.state, below a number of the request.
const (
	away    = iota // no request, or one whose body is still to be read
	running        // nothing is to be read until the answer
	watched        // look reads
	phases  = 3    // the bits of these
	request = 4    // what a request adds
)

// watch sees whether the client of a hot request is still there. One timer a
// connection does that, not one a request: it is set by a request when it is
// not, and goes on as long as it finds one.
type watch struct {
	c      *conn
	cancel context.CancelFunc // of the present request

	state atomic.Uint64
	timer *time.Timer
	set   atomic.Bool
	seen  uint64 // the state at the look before

	mu   sync.Mutex // orders the deadlines of look and of stop
	done chan struct{}
}

func (w *watch) begin(c *conn) {
	w.c = c
	w.done = make(chan struct{}, 1)
	w.timer = time.AfterFunc(time.Hour, w.look)
	w.timer.Stop()
}

// start says that the request has arrived.
func (w *watch) start() {
	w.state.Store(w.state.Load()&^phases + request + running)
	w.arm()
}

func (w *watch) arm() {
	if !w.set.Load() && w.set.CompareAndSwap(false, true) {
		w.timer.Reset(patience)
	}
}

// stop says that the handler has come back, and takes the connection back.
func (w *watch) stop() {
	s := w.state.Load()
	if s&phases == away || w.state.CompareAndSwap(s&^phases|running, s&^phases) {
		return
	}
	w.mu.Lock()
	_ = w.c.Conn.SetReadDeadline(past) // a closed connection does not block
	w.mu.Unlock()
	<-w.done
	w.state.Store(s &^ phases)
	w.c.armed = past // so that it is set anew
	w.c.armAt(time.Time{})
	w.arm()
}

var past = time.Unix(1, 0)

// look is called by the timer.
func (w *watch) look() {
	s := w.state.Load()
	if s&phases != running {
		w.set.Store(false)
		if w.state.Load()&phases == running {
			w.arm() // it began just now, and may have found the timer set
		}
		return
	}
	if s != w.seen {
		w.seen = s
		w.timer.Reset(patience)
		return
	}
	w.mu.Lock()
	if !w.state.CompareAndSwap(s, s&^phases|watched) {
		w.mu.Unlock()
		w.timer.Reset(patience)
		return
	}
	_ = w.c.Conn.SetReadDeadline(time.Time{})
	w.mu.Unlock()
	w.read()
	w.set.Store(false)
	w.done <- struct{}{}
}

// read returns when the client has gone, has sent more, or the handler has come
// back.
func (w *watch) read() {
	c := w.c
	if c.r < c.w {
		return // the next request is there already
	}
	n, err := c.Conn.Read(c.buf)
	if n > 0 {
		c.r, c.w = 0, n
		return
	}
	if !isTimeout(err) {
		w.cancel()
	}
}
