package httpapi

import (
	"io"
	"net/http"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/lane"
	"github.com/nesoserve/neso/internal/ledger"
)

const (
	// heavyText is from which size on, in bytes, JSON is heavy work.
	heavyText = 1 << 20
	// heavyInflated is what a compressed body may become before that is heavy work.
	heavyInflated = keepScratch
)

// errGone is for a request whose client has gone while it stood in line.
var errGone = backend.Errorf(backend.Cancelled, "request cancelled")

// heavily does f, in the lane of heavy work if it is heavy, and returns its error,
// or errGone when the client has gone before its turn came.
func (s *Server) heavily(gone <-chan struct{}, heavy bool, f func() *backend.Error) *backend.Error {
	fail := errGone
	s.heavy.In(gone, heavy, func() { fail = f() })
	return fail
}

// arrival is a body on its way in. What comes is counted as it comes, its time
// grows with it, and the ledger may cut it off when it stands still. It is part of
// a pooled inference.
type arrival struct {
	transfer
	r        io.Reader
	hold     ledger.Hold
	open     bool
	req      *infer.Request // counts what comes; nil: hold does
	whole    bool           // all of it has been counted
	coded    bool           // who undoes its compression counts
	heavy    lane.Lane
	gone     <-chan struct{} // closed when nobody waits for the answer
	inLane   bool
	inflated int64
	begin    time.Time
	patience time.Duration
	n        int64 // that have come
	granted  int64 // of those, when its time was last set
}

// arrive begins to watch a body. What has come of it is counted by somebody else.
func (s *Server) arrive(w http.ResponseWriter, r *http.Request, c *inference) *arrival {
	a := &c.in
	a.transfer, a.r, a.req, a.whole, a.coded, a.open = transferOf(w, r), r.Body, nil, false, false, true
	a.begin, a.patience, a.n, a.granted = time.Now(), s.o.ReadTimeout, 0, 0
	a.heavy, a.gone, a.inLane, a.inflated = s.heavy, r.Context().Done(), false, 0
	a.hold.Open(s.ledger(), ledger.In, nil, a.cutReads)
	return a
}

// handOver says that req counts from now on what comes, and what has come.
func (a *arrival) handOver(req *infer.Request) {
	a.req = req
	if a.open && !a.whole && !a.coded {
		a.hold.Close()
		if a.hold.Off() {
			return // the next Read says so
		}
		a.hold.Open(a.hold.Ledger(), ledger.In, nil, a.cutReads)
		a.hold.Stand(a.n)
	}
}

// grantEvery is how often a body gets more time, in bytes.
const grantEvery = 1 << 20

// Read reads what comes. Errors of the ledger are *backend.Error.
func (a *arrival) Read(p []byte) (n int, err error) {
	if a.inLane {
		a.heavy.Leave()
		defer func() {
			if a.inLane = a.heavy.Enter(a.gone); !a.inLane {
				n, err = 0, errGone
			}
		}()
	}
	n, err = a.r.Read(p)
	if a.hold.Off() {
		return 0, a.refusal()
	}
	if a.n += int64(n); a.n-a.granted >= grantEvery {
		a.granted = a.n
		a.readUntil(ledger.Until(a.begin, time.Now(), a.patience, a.n))
	}
	if a.coded {
		a.hold.Moved(int64(n))
	} else if fault := a.count(int64(n)); fault != nil {
		return 0, fault
	}
	return n, err
}

// count counts n bytes that have come, or have become of what has come.
func (a *arrival) count(n int64) error {
	if a.coded {
		if a.inflated += n; a.inflated > heavyInflated && !a.inLane {
			if a.inLane = a.heavy.Enter(a.gone); !a.inLane {
				return errGone
			}
		}
	}
	switch {
	case a.whole:
		a.hold.Moved(n)
	case a.req != nil:
		if err := a.req.Reserve(n); err != nil {
			return err
		}
		a.hold.Stand(n)
	case !a.hold.Take(n):
		return a.hold.Refusal(n)
	}
	return nil
}

func (a *arrival) refusal() error {
	return &backend.Error{Code: backend.Unavailable, Message: "the request body came too slowly for a server that is nearly full (" +
		a.hold.Ledger().Option + ")", RetryAfter: time.Second}
}

// end ends the watch: the body is there, or not wanted any more. A connection
// that has been cut off in the very end says so in its answer.
func (a *arrival) end(h http.Header) {
	if !a.open {
		return
	}
	a.open = false
	a.leaveLane()
	a.hold.Close()
	if h != nil && a.hold.Off() {
		h["Connection"] = closeConnection
	}
	a.transfer, a.r, a.req, a.gone = transfer{}, nil, nil, nil
}

// leaveLane says that there is nothing more to inflate.
func (a *arrival) leaveLane() {
	if a.inLane {
		a.inLane = false
		a.heavy.Leave()
	}
}

// cut reports whether the body has been cut off; then there is no more to read.
func (a *arrival) cut() bool { return a.hold.Off() }
