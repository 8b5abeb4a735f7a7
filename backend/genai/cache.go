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
	model  string
	limits limits
	// report is told how many bytes are in use, in order.
	report func(used int64)

	turn chan struct{} // has room for who is to have the next place

	mu    sync.Mutex
	used  int64
	count int
	freed chan struct{} // has room for one; something was given back
}

func newPlaces(model string, l limits, report func(int64)) *places {
	return &places{model: model, limits: l, report: report, turn: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// lookAgain is how often a request that waits is looked at for cancellation.
const lookAgain = 10 * time.Millisecond

// take waits for a place with memory of so many bytes. It fails at once where there never will be
// one, and soon when gone says that nobody waits any more.
func (p *places) take(bytes int64, gone func() bool) error {
	if bytes > p.limits.cache {
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
	for !p.try(bytes) {
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

func (p *places) try(bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= p.limits.sequences || bytes > p.limits.cache-p.used {
		return false
	}
	p.count++
	p.used += bytes
	p.report(p.used)
	return true
}

// giveBack ends what take has begun.
func (p *places) giveBack(bytes int64) {
	p.mu.Lock()
	p.count--
	p.used -= bytes
	p.report(p.used)
	p.mu.Unlock()
	select {
	case p.freed <- struct{}{}:
	default:
	}
}
