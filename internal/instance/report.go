package instance

import (
	"sync"

	"github.com/nesoserve/neso/backend"
)

// reporter takes what one instance says about itself, as long as it has its
// slot.
type reporter struct {
	p *capacity
	s *slot

	mu         sync.Mutex
	down, over bool
}

// reports returns the reporter of a new instance in a slot; what the one before
// it says counts no more.
func (p *capacity) reports(s *slot) *reporter {
	if old := s.reporter; old != nil {
		old.end()
	}
	s.reporter = &reporter{p: p, s: s}
	return s.reporter
}

func (r *reporter) take(state backend.InstanceState) {
	rises, turns := r.note(state)
	if rises {
		r.p.raise(r.s)
	}
	if turns {
		r.p.Admit() // to it, or with it to the last ones that are left
	}
}

// note reports whether the instance is up again, and whether it has begun or
// ceased to fail.
func (r *reporter) note(state backend.InstanceState) (rises, turns bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false, false
	}
	s := r.s
	turns = s.fails.Swap(state.Failing) != state.Failing
	s.ahead.Store(int32(max(0, min(state.Ahead, 1<<20))))
	if r.down == state.Down {
		return false, turns
	}
	r.down = state.Down
	if r.down {
		s.downs.Add(1)
	}
	return !r.down, turns
}

func (r *reporter) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	s := r.s
	s.ahead.Store(0)
	s.fails.Store(false)
	if r.down {
		s.downs.Add(-1) // what the one that comes says counts
	}
}
