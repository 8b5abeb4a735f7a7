package lifecycle

import (
	"slices"
	"sync"

	"github.com/nesoserve/neso/internal/lifecycle/departing"
	"github.com/nesoserve/neso/internal/lifecycle/uses"
	"github.com/nesoserve/neso/internal/model"
)

// calls remembers which models have sent requests to which. Nothing says so
// before they do, as the steps of an ensemble do.
type calls struct {
	mu sync.RWMutex
	// seen says of each pair whether the called model leads back to the caller, by
	// calls or as an ensemble by its steps.
	seen map[call]bool
}

type call struct{ caller, callee string }

// Called notes that a model has sent a request to another one. It reports
// whether that one may call the first in turn.
func (m *Manager) Called(caller, callee string) (loop bool) {
	c := call{caller, callee}
	m.calls.mu.RLock()
	loop, known := m.calls.seen[c]
	m.calls.mu.RUnlock()
	if known {
		return loop
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls.mu.Lock()
	m.calls.seen[c] = false
	m.calls.mu.Unlock()
	m.loopsLocked()
	m.calls.mu.RLock()
	defer m.calls.mu.RUnlock()
	return m.calls.seen[c]
}

// loopsLocked finds anew which calls lead back.
func (m *Manager) loopsLocked() {
	m.calls.mu.Lock()
	defer m.calls.mu.Unlock()
	if len(m.calls.seen) == 0 {
		return
	}
	g := m.models.graph()
	for c := range m.calls.seen {
		caller := m.models.key(c.caller)
		g[caller] = append(g[caller], m.models.key(c.callee))
	}
	for c := range m.calls.seen {
		m.calls.seen[c] = c.caller == c.callee || slices.Contains(g.Users(m.models.key(c.caller)), m.models.key(c.callee))
	}
}

// callersLocked returns the graph of ensembles with the calls between models.
func (m *Manager) callersLocked() uses.Graph {
	g := m.models.graph()
	m.calls.mu.RLock()
	defer m.calls.mu.RUnlock()
	for c := range m.calls.seen {
		if c.caller != c.callee {
			caller := m.models.key(c.caller)
			g[caller] = append(g[caller], m.models.key(c.callee))
		}
	}
	return g
}

// PinFor is Pin for a request that the model caller sends. While caller
// departs, it reaches also versions that depart after it.
func (m *Manager) PinFor(caller, name string, version int64) *model.Model {
	if v := m.Pin(name, version); v != nil || caller == "" {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.departing.Pin(caller, name, version)
}

// Alive returns the versions that execute requests: those that serve, and those
// that still end what they have begun.
func (m *Manager) Alive() []*model.Model {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*model.Model
	for _, e := range m.models.entries {
		for _, v := range e.versions {
			if v.model != nil {
				all = append(all, v.model)
			}
		}
	}
	return append(all, m.departing.All()...)
}

func (m *Manager) departed(name string, d *departing.Departure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.departing.Remove(name, d)
}
