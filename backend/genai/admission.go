package genai

import (
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// admission bounds what the requests of a model share: how many are written at once, and
// the memory of their keys and values. A request that is admitted has all the memory that
// it may need, so that it never waits for that of another. Requests are admitted in the
// order in which they come.
type admission struct {
	model    string
	limits   limits
	perToken int64
	// report is told how many bytes are in use, in order.
	report func(used int64)

	turn chan struct{} // held by the request that is admitted next

	mu    sync.Mutex
	own   int64         // bytes of those that have memory of their own
	sides map[int64]int // how many there are of each length of those that lie side by side
	count int
	freed chan struct{} // has room for one; something was given back
}

// claim is what a request needs: bytes of its own, or tokens in a cache in which texts lie side by
// side, each with as much room as the longest has.
type claim struct{ bytes, tokens int64 }

func newAdmission(model string, l limits, perToken int64, report func(int64)) *admission {
	return &admission{
		model: model, limits: l, perToken: perToken, report: report, sides: map[int64]int{}, turn: make(chan struct{}, 1),
		freed: make(chan struct{}, 1),
	}
}

// used is how many bytes are in use, with what is claimed beside.
func (a *admission) used(more claim) int64 {
	rows, longest := int64(0), int64(0)
	for tokens, n := range a.sides {
		rows, longest = rows+int64(n), max(longest, tokens)
	}
	if more.tokens > 0 {
		rows, longest = rows+1, max(longest, more.tokens)
	}
	return a.own + more.bytes + rows*longest*a.perToken
}

// lookAgain is how often a request that waits is looked at for cancellation.
const lookAgain = 10 * time.Millisecond

// take waits until a request is admitted. It fails at once where it never will be, and soon when
// gone says that nobody waits any more.
func (a *admission) take(c claim, gone func() bool) error {
	if bytes := c.bytes + c.tokens*a.perToken; bytes > a.limits.cache {
		return backend.Errorf(backend.InvalidArg, "the request needs %d bytes for keys and values, and model '%s' has %d for all requests: "+
			"ask for fewer tokens (max_tokens)", bytes, a.model, a.limits.cache)
	}
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for mine := false; !mine; {
		select {
		case a.turn <- struct{}{}:
			mine = true
		case <-tick.C:
			if gone() {
				return errGone
			}
		}
	}
	defer func() { <-a.turn }()
	for !a.try(c) {
		select {
		case <-a.freed:
		case <-tick.C:
		}
		if gone() {
			return errGone
		}
	}
	return nil
}

var errGone error = backend.Errorf(backend.Cancelled, "the request was cancelled")

func (a *admission) try(c claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count >= a.limits.sequences || a.used(c) > a.limits.cache {
		return false
	}
	a.add(c, 1)
	return true
}

// giveBack ends what take has begun.
func (a *admission) giveBack(c claim) {
	a.mu.Lock()
	a.add(c, -1)
	a.mu.Unlock()
	select {
	case a.freed <- struct{}{}:
	default:
	}
}

// add adds a claim so many times.
func (a *admission) add(c claim, n int) {
	a.count += n
	a.own += int64(n) * c.bytes
	if c.tokens > 0 {
		if a.sides[c.tokens] += n; a.sides[c.tokens] == 0 {
			delete(a.sides, c.tokens)
		}
	}
	a.report(a.used(claim{}))
}
