package instance

import (
	"sync"

	"github.com/nesoserve/neso/backend"
)

// reporter takes what one instance says about itself, as long as it has its
// slot.
type reporter struct {
	p *places
	i int

	mu         sync.Mutex
	down, over bool
}

// reports returns the reporter of a new instance in a slot; what the one before
// it says counts no more.
func (p *places) reports(i int) *reporter {
	s := &p.slots[i]
	if old := s.reporter; old != nil {
		old.end()
	}
	s.reporter = &reporter{p: p, i: i}
	return s.reporter
}

func (r *reporter) take(state backend.InstanceState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	s := &r.p.slots[r.i]
	s.ahead.Store(int32(max(0, min(state.Ahead, 1<<20))))
	if r.down == state.Down {
		return
	}
	r.down = state.Down
	if r.down {
		s.downs.Add(1)
	} else {
		r.p.raise(r.i)
	}
}

func (r *reporter) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	s := &r.p.slots[r.i]
	s.ahead.Store(0)
	if r.down {
		s.downs.Add(-1) // what the one that comes says counts
	}
}
