package engine

import (
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ledger"
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
	empty    chan struct{} // one place: said once is enough
}

func newAdmission(maxBytes, maxRequests int64) *admission {
	return &admission{ledger: ledger.New(maxBytes), maxRequests: maxRequests, empty: make(chan struct{}, 1)}
}

// enter lets a request of so many bytes in, or says why not.
func (a *admission) enter(bytes int64) *backend.Error {
	if bytes < 0 {
		bytes = 0
	}
	if n := a.requests.Add(1); n > a.maxRequests {
		a.requests.Add(-1)
		return &backend.Error{
			Code: backend.Unavailable, RetryAfter: retryAfter,
			Message: backend.Errorf(backend.Unavailable, "the server holds its maximum of %d requests (--max-queued-requests)", a.maxRequests).Message,
		}
	}
	if err := a.grow(bytes); err != nil {
		a.requests.Add(-1)
		return err
	}
	return nil
}

// grow lets further bytes of a request in that is inside already.
func (a *admission) grow(bytes int64) *backend.Error {
	if !a.ledger.Take(ledger.In, bytes) {
		return a.ledger.Refusal(ledger.In, bytes)
	}
	return nil
}

// shrink undoes grow.
func (a *admission) shrink(bytes int64) { a.ledger.Give(ledger.In, bytes) }

// leave undoes enter.
func (a *admission) leave(bytes int64) {
	a.ledger.Give(ledger.In, max(0, bytes))
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
