package grpcapi

import (
	"net"
	"sync"
)

// silent are the connections on which the client has not said anything yet. The
// transport cannot stop before each of them has had its time to say hello: a
// probe that only connects would keep an idle server from ending.
type silent struct {
	mu     sync.Mutex
	conns  map[*silentConn]struct{}
	closed bool
}

func newSilent() *silent { return &silent{conns: map[*silentConn]struct{}{}} }

// watch makes s follow the connections of l.
func (s *silent) watch(l net.Listener) net.Listener { return &silentListener{l, s} }

// close closes them, and those that still come.
func (s *silent) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close() // nobody has asked it for anything
	}
}

type silentListener struct {
	net.Listener
	silent *silent
}

func (l *silentListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	wrapped := &silentConn{Conn: c, silent: l.silent}
	l.silent.mu.Lock()
	defer l.silent.mu.Unlock()
	if l.silent.closed {
		_ = c.Close() // its server sees that and forgets it
	} else {
		l.silent.conns[wrapped] = struct{}{}
	}
	return wrapped, nil
}

// silentConn forgets its silence with the first byte.
type silentConn struct {
	net.Conn
	silent *silent
	spoken bool // only the reader looks, one goroutine at a time
}

func (c *silentConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.spoken && (n > 0 || err != nil) {
		c.spoken = true
		c.silent.mu.Lock()
		delete(c.silent.conns, c)
		c.silent.mu.Unlock()
	}
	return n, err
}
