package engine

import (
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/setting"
)

// retryAfter is what a client is told to wait when the server is full.
const retryAfter = time.Second

// admission counts what is inside the server and bounds it. A request is
// inside from Resolve to its end, which covers its time in every queue.
type admission struct {
	maxRequests int64
	requests    atomic.Int64
	// ledger counts the bytes, with those of all else that the server holds.
	ledger *ledger.Ledger
	// external counts those that came through a front end: the server stops when
	// they have ended, while requests of models to other models still pass.
	external atomic.Int64
	refuse   atomic.Bool
	option   string        // what refusals call the setting of maxRequests
	empty    chan struct{} // of capacity 1: said once is enough
}

func newAdmission(maxBytes, maxRequests int64, words setting.Words) *admission {
	l := ledger.New(maxBytes)
	l.Option = words.Name("max-queued-bytes")
	return &admission{ledger: l, maxRequests: maxRequests, option: words.Name("max-queued-requests"), empty: make(chan struct{}, 1)}
}

// enter lets a request of bytes in, or says why not. whole says that they are all
// of it: it may have its place in the ledger's reserve then.
func (a *admission) enter(by ledger.Asker, bytes int64, whole bool) (ledger.Room, *backend.Error) {
	bytes = max(0, bytes)
	if n := a.requests.Add(1); n > a.maxRequests {
		a.requests.Add(-1)
		return ledger.Room{}, &backend.Error{
			Code: backend.Unavailable, RetryAfter: retryAfter,
			Message: backend.Errorf(backend.Unavailable, "the server holds its maximum of %d requests (%s)",
				a.maxRequests, a.option).Message,
		}
	}
	on := ledger.In
	var ok bool
	if whole {
		on, _, ok = a.ledger.TakeWhole(ledger.In, by, bytes)
	} else {
		ok = a.ledger.Take(ledger.In, bytes)
	}
	if !ok {
		a.requests.Add(-1)
		return ledger.Room{}, a.ledger.Refusal(ledger.In, bytes)
	}
	return ledger.Room{On: on, By: by, Bytes: bytes}, nil
}

// leave undoes enter.
func (a *admission) leave(room ledger.Room) {
	room.Give(a.ledger)
	a.requests.Add(-1)
}

// enterExternal counts a request from outside, unless the server stops.
func (a *admission) enterExternal() bool {
	// Counting first makes sure that close sees either the request or its refusal.
	a.external.Add(1)
	if a.refuse.Load() {
		a.leaveExternal()
		return false
	}
	return true
}

func (a *admission) leaveExternal() {
	if a.external.Add(-1) == 0 && a.refuse.Load() {
		select {
		case a.empty <- struct{}{}:
		default:
		}
	}
}

// close refuses further requests from outside. The returned channel receives
// once there is none left; it may do so more than once, also when one has been
// refused meanwhile.
func (a *admission) close() <-chan struct{} {
	a.refuse.Store(true)
	if a.external.Load() == 0 {
		select {
		case a.empty <- struct{}{}:
		default:
		}
	}
	return a.empty
}
