package transport

import (
	"errors"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/grpcapi/transport/dispatch"
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

// dispatch has the handler of a unary call run that has come whole. alone says
// that no other call of the connection is open.
func (c *intake) dispatch(st *stream, alone bool) error {
	turn := c.guess.Next(!alone || c.rd.at < c.rd.to)
	if c.sock == nil || turn == 0 {
		c.s.start(st)
		return nil
	}
	st.onReader, st.began = true, c.lastRead.Load()
	c.inline.Store(turn)
	c.s.wakeWatch()
	st.run()
	if !c.inline.CompareAndSwap(turn, 0) {
		return errHandedOver // the guess belongs to somebody else
	}
	c.guess.Ended(st.took, st.company)
	return nil
}

// look notes, before the answer, how long the handler was on the reader, and
// whether the client has sent more meanwhile.
func (st *stream) look() {
	st.took = time.Duration(backend.Now() - st.began)
	st.company = st.took >= dispatch.LongCall && st.c.sock.HasMore()
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
		c.s.running.Go(c.in.standIn)
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
