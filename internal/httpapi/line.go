package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/nesoserve/neso/internal/ledger"
)

// lineKey finds the net.Conn of a request.
type lineKey struct{}

// line is a request's hold on its connection: the times of reading and writing,
// and what ends a transfer from another goroutine.
type line struct {
	w deadlines // nil: the writer has no times
	c net.Conn  // nil: not ours to cut
}

// lineOf returns the line of a request.
func lineOf(w http.ResponseWriter, r *http.Request) line {
	c, _ := r.Context().Value(lineKey{}).(net.Conn)
	return line{times(w), c}
}

// times returns what sets the deadlines of w, or nil.
func times(w http.ResponseWriter) deadlines {
	if d, ok := w.(deadlines); ok {
		return d
	}
	if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		return times(u.Unwrap())
	}
	return nil
}

// cutter is a connection whose deadlines belong to one goroutine, and which can
// be cut from others.
type cutter interface {
	CutReads()
	CutWrites()
}

var past = time.Unix(1, 0)

// cutReads ends what is being read, cutWrites what is being written. The
// connection is of no use afterwards.
func (l line) cutReads() {
	if c, ok := l.c.(cutter); ok {
		c.CutReads()
	} else if l.c != nil {
		_ = l.c.SetReadDeadline(past)
	}
}

func (l line) cutWrites() {
	if c, ok := l.c.(cutter); ok {
		c.CutWrites()
	} else if l.c != nil {
		_ = l.c.SetWriteDeadline(past)
	}
}

// readUntil sets the deadline of reads, where the writer has one.
func (l line) readUntil(t time.Time) {
	if l.w != nil {
		_ = l.w.SetReadDeadline(t)
	}
}

// connContext gives each connection's requests what they need of it.
func (s *Server) connContext() func(context.Context, net.Conn) context.Context {
	age := s.age()
	return func(ctx context.Context, c net.Conn) context.Context {
		if age != nil {
			ctx = age(ctx, c)
		}
		return context.WithValue(ctx, lineKey{}, c)
	}
}

// ledger counts what the front end holds.
func (s *Server) ledger() *ledger.Ledger { return s.engine.Ledger() }
