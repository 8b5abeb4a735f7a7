package transport

import (
	"errors"
	"time"

	"github.com/nesoserve/neso/backend"
)

// A unary call that comes alone is handled on the goroutine that reads its
// connection: no other has to be woken, which costs as much as a small call.
// While the handler runs nobody reads. That is no loss to a client that waits
// for the answer; what else may come is read by a stand-in, another goroutine
// that takes the reading over for good: at once when the handler waits for the
// client, else after one to two rounds of Server.watch.

// errHandedOver ends a reader whose work a stand-in has taken over. From then on
// it must not touch what belongs to the reader.
var errHandedOver = errors.New("transport: another goroutine reads the connection")

// watchEvery is how often handlers on readers are looked at, and watchEach how
// much longer it is for each connection.
const (
	watchEvery = 10 * time.Millisecond
	watchEach  = time.Microsecond
	// watchRounds is how many rounds without such a handler end the watch.
	watchRounds = 8
)

// Connections that several callers share have more calls open at a time, or the
// next one waits when a longer one is over. crowd counts such signs: a sign is
// worth crowdSign, each call takes one off, from crowdMost on calls are handed to
// other goroutines, and that for crowdTime calls. A call that takes very long has
// the next ones handed over, too, twice as many each time.
const (
	// longCall is from when on a call may have kept others waiting.
	longCall = 50 * time.Microsecond
	// veryLongCall is from when on it has been a mistake to run it on the reader.
	veryLongCall = time.Millisecond
	mostAside    = 1 << 16

	crowdSign = 3
	crowdMost = 7
	crowdTime = 64
)

// dispatch has the handler of a unary call run that has come whole. alone says
// that no other call of the connection is open.
func (c *conn) dispatch(st *stream, alone bool) error {
	c.crowd = max(0, c.crowd-1)
	company := !alone || c.rd.at < c.rd.to
	if company {
		c.crowded()
	}
	if c.sock == nil || company || c.crowd >= crowdMost {
		c.s.start(st)
		return nil
	}
	st.onReader, st.began = true, c.lastRead.Load()
	c.turn++
	turn := c.turn // of the reader alone, as soon as it is not taken over
	c.inline.Store(turn)
	c.s.wakeWatch()
	st.run()
	if !c.inline.CompareAndSwap(turn, 0) {
		return errHandedOver
	}
	switch {
	case st.slow:
		c.avoid()
	case st.company:
		c.crowded()
	}
	return nil
}

// crowded notes a sign.
func (c *conn) crowded() {
	if c.crowd += crowdSign; c.crowd >= crowdMost {
		c.crowd = crowdTime
	}
}

// avoid has the next calls handed over.
func (c *conn) avoid() {
	c.aside = min(max(crowdTime, 2*c.aside), mostAside)
	c.crowd = c.aside
}

// look notes, before the answer, how long the handler was on the reader, and
// whether the client has sent more meanwhile.
func (st *stream) look() {
	took := time.Duration(backend.Now() - st.began)
	st.slow = took >= veryLongCall
	st.company = took >= longCall && st.c.sock.hasMore()
}

// takeOver has a stand-in read the connection whose reader runs a handler, which
// has the given turn; 0 is whichever it is.
func (c *conn) takeOver(turn uint64) {
	if turn == 0 {
		if turn = c.inline.Load(); turn == 0 {
			return
		}
	}
	if c.inline.CompareAndSwap(turn, 0) {
		c.s.running.Go(func() {
			c.avoid()
			c.serveOn()
		})
	}
}

// wakeWatch has watch look at connections.
func (s *Server) wakeWatch() {
	if !s.watching.Load() && s.watching.CompareAndSwap(false, true) {
		s.wake <- struct{}{}
	}
}

// watch finds handlers that have been running on readers for too long, until no
// connection of a server that stops is left. It sleeps while there are none.
func (s *Server) watch() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.unwatched:
			return
		}
		for quiet := 0; quiet < watchRounds; {
			any, every := s.look()
			if quiet++; any {
				quiet = 0
			}
			timer.Reset(every)
			select {
			case <-timer.C:
			case <-s.unwatched:
				return
			}
		}
		s.watching.Store(false)
		if any, _ := s.look(); any { // it began before watching was reset
			s.wakeWatch()
		}
	}
}

// look takes over the reading of connections whose handler was there in the last
// round. It reports whether there are handlers, and how long to wait.
func (s *Server) look() (any bool, every time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		turn := c.inline.Load()
		if turn != 0 {
			any = true
			if turn == c.seen {
				c.takeOver(turn)
			}
		}
		c.seen = turn
	}
	return any, watchEvery + time.Duration(len(s.conns))*watchEach
}
