package drive

import (
	"io"
	"net"
	"sync"
)

// stream is a network connection with a buffer for what has been read.
type stream struct {
	dialer   *Dialer
	protocol string
	buf      []byte
	r, w     int
	out      []byte // what is written next

	mu     sync.Mutex
	conn   net.Conn // nil when there is none
	closed bool
}

// open dials if there is no connection; fresh reports that it has.
func (s *stream) open() (fresh bool, err error) {
	if s.conn != nil {
		return false, nil
	}
	c, err := s.dialer.dial(s.protocol)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return false, &Failure{Kind: "stopped", Broken: true}
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
	return nil
}

func (s *stream) write(b []byte) error {
	if _, err := s.conn.Write(b); err != nil {
		return lost(err)
	}
	return nil
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
