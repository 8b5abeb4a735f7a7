package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/nesoserve/neso/internal/ledger"
)

// cutterKey finds the cutter of a request's connection.
type cutterKey struct{}

// transfer is a request's hold on its connection: the times of reading and writing,
// and what ends them from another goroutine.
type transfer struct {
	w    deadlines // nil: the writer has no times
	conn cutter    // nil: not ours to cut
}

// transferOf returns that of a request.
func transferOf(w http.ResponseWriter, r *http.Request) transfer {
	c, _ := r.Context().Value(cutterKey{}).(cutter)
	return transfer{times(w), c}
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

// cutter ends what is being read from a connection, or written, from any goroutine.
// The connection is of no use afterwards. That of package transport, whose deadlines
// belong to one goroutine, does it itself.
type cutter interface {
	CutReads()
	CutWrites()
}

// cut is the cutter of another connection.
type cut struct{ net.Conn }

var past = time.Unix(1, 0)

func (c cut) CutReads()  { _ = c.SetReadDeadline(past) }
func (c cut) CutWrites() { _ = c.SetWriteDeadline(past) }

// cutReads ends what is being read, cutWrites what is being written.
func (t transfer) cutReads() {
	if t.conn != nil {
		t.conn.CutReads()
	}
}

func (t transfer) cutWrites() {
	if t.conn != nil {
		t.conn.CutWrites()
	}
}

// readUntil sets the deadline of reads, where the writer has one.
func (t transfer) readUntil(at time.Time) {
	if t.w != nil {
		_ = t.w.SetReadDeadline(at)
	}
}

// connContext gives each connection's requests what they need of it.
func (s *Server) connContext() func(context.Context, net.Conn) context.Context {
	age := s.age()
	return func(ctx context.Context, c net.Conn) context.Context {
		if age != nil {
			ctx = age(ctx, c)
		}
		own, ok := c.(cutter)
		if !ok {
			own = cut{c}
		}
		return context.WithValue(ctx, cutterKey{}, own)
	}
}

// ledger counts what the front end holds.
func (s *Server) ledger() *ledger.Ledger { return s.engine.Ledger() }
