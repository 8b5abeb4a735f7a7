package transport

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/internal/ledger"
)

// Server is an http.Server that serves hot requests itself. The embedded one
// holds the settings, the handler and the bounds of both; it must not be served
// or closed by itself.
type Server struct {
	*http.Server
	// Ledger counts answers that wait for their clients; nil counts none. Set it
	// before Serve.
	Ledger *ledger.Ledger
	hot    func(path string) bool

	prepare sync.Once
	leaving atomic.Bool // each reply is the last one of its connection
	cut     atomic.Bool // connections are closed whatever they do

	mu sync.Mutex
	// parting are the connections that net/http has closed, as it takes them for
	// idle ones, while a hot request is in flight on them. They end with its answer.
	parting map[*conn]struct{}
	parted  chan struct{} // closed when one is gone; nil when nobody waits
}

// New returns a server with the settings of h. hot picks the requests to serve
// here among POST requests, by their path, which is plain: it has only letters,
// digits and "-._~/". For those the handler must not change the request's
// header, must have done with the request when it returns, and sets a
// Content-Type. What it writes without a Content-Length is kept until it returns.
func New(h *http.Server, hot func(path string) bool) *Server {
	return &Server{Server: h, hot: hot, parting: map[*conn]struct{}{}}
}

// Serve is http.Server's. Connections that are neither plain TCP nor Unix ones,
// such as those of TLS, are net/http's alone.
func (s *Server) Serve(l net.Listener) error {
	s.prepare.Do(s.hook)
	return s.Server.Serve(&listener{l, s})
}

// hook makes the connections see what net/http thinks of them.
func (s *Server) hook() {
	state, begin := s.ConnState, s.ConnContext
	s.ConnState = func(c net.Conn, now http.ConnState) {
		if c, ok := c.(*conn); ok && now == http.StateIdle {
			c.answered()
		}
		if state != nil {
			state(c, now)
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if begin != nil {
			ctx = begin(ctx, c)
		}
		if c, ok := c.(*conn); ok {
			ctx = context.WithValue(ctx, connKey{}, c)
			c.base = ctx
		}
		return ctx
	}
}

type listener struct {
	net.Listener
	s *Server
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	switch c := c.(type) {
	case *net.TCPConn:
		return newConn(c, c, l.s), err
	case *net.UnixConn:
		return newConn(c, c, l.s), err
	}
	return c, err
}

// SetKeepAlivesEnabled is http.Server's; off, hot requests are answered with
// "Connection: close" as the others are.
func (s *Server) SetKeepAlivesEnabled(on bool) {
	s.leaving.Store(!on)
	s.Server.SetKeepAlivesEnabled(on)
}

// Shutdown is http.Server's, and waits for the hot requests as well.
func (s *Server) Shutdown(ctx context.Context) error {
	s.leaving.Store(true)
	if err := s.Server.Shutdown(ctx); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		if len(s.parting) == 0 {
			s.mu.Unlock()
			return nil
		}
		if s.parted == nil {
			s.parted = make(chan struct{})
		}
		parted := s.parted
		s.mu.Unlock()
		select {
		case <-parted:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close is http.Server's: it cuts all connections, those with hot requests as
// well.
func (s *Server) Close() error {
	s.cut.Store(true)
	err := s.Server.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.parting {
		_ = c.Conn.Close()
	}
	return err
}

// part lets the hot request of c, if there is one, end before its connection
// does; false if there is none.
func (s *Server) part(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut.Load() {
		return false
	}
	if c.use.CompareAndSwap(busy, parting) {
		s.parting[c] = struct{}{}
	}
	return c.use.Load() == parting
}

// gone forgets a connection that has parted.
func (s *Server) gone(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parting, c)
	if s.parted != nil {
		close(s.parted)
		s.parted = nil
	}
}

// headerTimeout bounds the arrival of a head, as net/http has it; 0 means never.
func (s *Server) headerTimeout() time.Duration {
	if s.ReadHeaderTimeout != 0 {
		return s.ReadHeaderTimeout
	}
	return s.ReadTimeout
}

// idleTimeout bounds the pause between two requests, as net/http has it; 0 means
// never.
func (s *Server) idleTimeout() time.Duration {
	if s.IdleTimeout != 0 {
		return s.IdleTimeout
	}
	return s.ReadTimeout
}
