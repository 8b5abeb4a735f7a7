package listen

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Quiet are the connections of an HTTP server on which no request has come yet.
// http.Server.Shutdown waits five seconds for each of them, in case one is
// about to come: a probe that only connects, or a client's spare connection,
// would keep an idle server from ending.
type Quiet struct {
	conns  sync.Map // of net.Conn; a look for one that is not there takes no lock
	closed atomic.Bool
}

// Watch makes q follow the connections of h, which must not serve yet.
func (q *Quiet) Watch(h *http.Server) { h.ConnState = q.changed }

func (q *Quiet) changed(c net.Conn, s http.ConnState) {
	if s != http.StateNew {
		q.conns.LoadAndDelete(c)
		return
	}
	q.conns.Store(c, nil)
	if q.closed.Load() {
		_ = c.Close() // its server sees that and forgets it
	}
}

// Close closes them, and those that still come.
func (q *Quiet) Close() {
	q.closed.Store(true)
	q.conns.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close()
		return true
	})
}
