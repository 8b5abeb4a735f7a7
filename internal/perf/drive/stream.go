package drive

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/rawsocket"
)

// stream is a network connection with a buffer for what has been read.
type stream struct {
	dialer   *Dialer
	protocol string
	buf      []byte
	r, w     int
	out      []byte // what is written next

	raw     *rawsocket.Conn // the connection by cheaper calls; nil where there are none
	sent    int64           // when the last turn had been written
	written func()          // sets it; made once

	mu     sync.Mutex
	conn   net.Conn // nil when there is none
	cancel func()   // ends a dial under way; nil when there is none
	closed bool
	used   int64 // when the last answer had come
}

// idle is how long a connection must have had nothing to do for its end, found by the
// next request, to be no failure of that request: servers close such connections.
const idle = int64(time.Second)

// over ends a request that begun then, over a connection that may be fresh, and came
// to err. A connection that is broken is dropped; again says to send the request once
// more, over a new one.
func (s *stream) over(a *Answer, err error, fresh bool, begun int64) (again bool) {
	if f, ok := err.(*Failure); ok && f.Broken { //nolint:errorlint // made here, never wrapped
		s.drop()
		if !fresh && a.First == 0 && s.wasIdle(f, begun) {
			return true
		}
	}
	s.used = a.ended(err)
	return false
}

// wasIdle reports whether a request that failed by f without any answer is to be sent
// once more, over a new connection: its connection ended while it had nothing to do,
// or the server says that it has not looked at the request.
func (s *stream) wasIdle(f *Failure, begun int64) bool {
	switch f.Kind {
	case kindClosed, kindReset:
		return begun-s.used > idle
	case kindGoAway:
		return true
	}
	return false
}

// open dials if there is no connection; fresh reports that it has.
func (s *stream) open() (fresh bool, err error) {
	if s.conn != nil {
		return false, nil
	}
	stopped := &Failure{Kind: kindStopped, Broken: true}
	ctx, cancel := context.WithTimeout(context.Background(), s.dialer.Timeout)
	defer cancel()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false, stopped
	}
	s.cancel = cancel
	s.mu.Unlock()
	c, err := s.dialer.dial(ctx, s.protocol)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = nil
	switch {
	case s.closed && err == nil:
		c.Close()
		return false, stopped
	case s.closed:
		return false, stopped
	case err != nil:
		return false, err
	}
	if s.raw = rawsocket.New(c); s.raw != nil {
		c = s.raw
		if s.written == nil {
			s.written = func() { s.sent = Now() }
		}
	}
	s.conn, s.r, s.w = c, 0, 0
	if s.buf == nil {
		s.buf = make([]byte, 64<<10)
	}
	return true, nil
}

// drop closes the connection, so that the next request dials anew.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// Close ends the connection for good.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed = true; s.conn != nil {
		s.conn.Close() // the goroutine that reads finds it closed, and drops it
	}
	if s.cancel != nil {
		s.cancel()
	}
	return nil
}

func (s *stream) write(b []byte) error {
	if _, err := s.conn.Write(b); err != nil {
		return lost(err)
	}
	return nil
}

// turn writes b and reads the beginning of what comes then, if nothing is buffered; it
// returns when b had been written, 0 if it has not been.
func (s *stream) turn(b []byte) (sent int64, err error) {
	if s.raw == nil || s.r != s.w {
		if err := s.write(b); err != nil {
			return 0, err
		}
		sent = Now()
		if s.r == s.w {
			err = s.fill(1)
		}
		return sent, err
	}
	s.r, s.w, s.sent = 0, 0, 0
	if s.w, err = s.raw.Exchange(b, s.buf, s.written); err != nil {
		err = lost(err)
	}
	return s.sent, err
}

// buffered is what has been read and not been taken.
func (s *stream) buffered() []byte { return s.buf[s.r:s.w] }

// fill reads more, behind what is buffered; at least room bytes must fit.
func (s *stream) fill(room int) error {
	if s.r == s.w {
		s.r, s.w = 0, 0
	}
	if len(s.buf)-s.w < room {
		if s.w-s.r+room > len(s.buf) {
			grown := make([]byte, max(2*len(s.buf), s.w-s.r+room))
			s.w = copy(grown, s.buf[s.r:s.w])
			s.buf = grown
		} else {
			s.w = copy(s.buf, s.buf[s.r:s.w])
		}
		s.r = 0
	}
	n, err := s.conn.Read(s.buf[s.w:])
	s.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return lost(err)
}

// need has n bytes buffered.
func (s *stream) need(n int) error {
	for s.w-s.r < n {
		if err := s.fill(n - (s.w - s.r)); err != nil {
			return err
		}
	}
	return nil
}

// take hands n bytes to keep, if that is not nil, and forgets them.
func (s *stream) take(n int, keep *[]byte) error {
	for n > 0 {
		if s.r == s.w {
			if err := s.fill(1); err != nil {
				return err
			}
		}
		part := min(n, s.w-s.r)
		if keep != nil {
			*keep = append(*keep, s.buf[s.r:s.r+part]...)
		}
		s.r += part
		n -= part
	}
	return nil
}
