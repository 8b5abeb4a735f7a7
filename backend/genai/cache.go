package genai

import (
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// places are what requests share: how many are written at once, and the memory of their keys and
// values, of which each has all that it may need from its beginning on. So no request that has
// begun waits for memory of another. They are given in the order in which they are asked for.
type places struct {
	model    string
	limits   limits
	perToken int64
	// report is told how many bytes are in use, in order.
	report func(used int64)

	turn chan struct{} // has room for who is to have the next place

	mu    sync.Mutex
	own   int64         // bytes of those that have memory of their own
	sides map[int64]int // how many there are of each length of those that lie side by side
	count int
	freed chan struct{} // has room for one; something was given back
}

// claim is what a request needs: bytes of its own, or tokens in a cache in which texts lie side by
// side, each with as much room as the longest has.
type claim struct{ bytes, tokens int64 }

func newPlaces(model string, l limits, perToken int64, report func(int64)) *places {
	return &places{
		model: model, limits: l, perToken: perToken, report: report, sides: map[int64]int{}, turn: make(chan struct{}, 1),
		freed: make(chan struct{}, 1),
	}
}

// used is how many bytes are in use, with what is claimed beside.
func (p *places) used(more claim) int64 {
	rows, longest := int64(0), int64(0)
	for tokens, n := range p.sides {
		rows, longest = rows+int64(n), max(longest, tokens)
	}
	if more.tokens > 0 {
		rows, longest = rows+1, max(longest, more.tokens)
	}
	return p.own + more.bytes + rows*longest*p.perToken
}

// lookAgain is how often a request that waits is looked at for cancellation.
const lookAgain = 10 * time.Millisecond

// take waits for a place with memory. It fails at once where there never will be one, and soon when
// gone says that nobody waits any more.
func (p *places) take(c claim, gone func() bool) error {
	if bytes := c.bytes + c.tokens*p.perToken; bytes > p.limits.cache {
		return backend.Errorf(backend.InvalidArg, "the request needs %d bytes for keys and values, and model '%s' has %d for all requests: "+
			"ask for fewer tokens (max_tokens)", bytes, p.model, p.limits.cache)
	}
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for mine := false; !mine; {
		select {
		case p.turn <- struct{}{}:
			mine = true
		case <-tick.C:
			if gone() {
				return errGone
			}
		}
	}
	defer func() { <-p.turn }()
	for !p.try(c) {
		select {
		case <-p.freed:
		case <-tick.C:
		}
		if gone() {
			return errGone
		}
	}
	return nil
}

var errGone error = backend.Errorf(backend.Cancelled, "the request was cancelled")

func (p *places) try(c claim) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= p.limits.sequences || p.used(c) > p.limits.cache {
		return false
	}
	p.add(c, 1)
	return true
}

// giveBack ends what take has begun.
func (p *places) giveBack(c claim) {
	p.mu.Lock()
	p.add(c, -1)
	p.mu.Unlock()
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// add adds a claim so many times.
func (p *places) add(c claim, n int) {
	p.count += n
	p.own += int64(n) * c.bytes
	if c.tokens > 0 {
		if p.sides[c.tokens] += n; p.sides[c.tokens] == 0 {
			delete(p.sides, c.tokens)
		}
	}
	p.report(p.used(claim{}))
}
