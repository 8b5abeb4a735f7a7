package lifecycle

import (
	"slices"
	"sync"

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
	g := m.graphLocked()
	for c := range m.calls.seen {
		caller := m.keyLocked(c.caller)
		g[caller] = append(g[caller], m.keyLocked(c.callee))
	}
	for c := range m.calls.seen {
		m.calls.seen[c] = c.caller == c.callee || slices.Contains(g.Users(m.keyLocked(c.caller)), m.keyLocked(c.callee))
	}
}

// callersLocked returns the graph of ensembles with the calls between models.
func (m *Manager) callersLocked() uses.Graph {
	g := m.graphLocked()
	m.calls.mu.RLock()
	defer m.calls.mu.RUnlock()
	for c := range m.calls.seen {
		if c.caller != c.callee {
			caller := m.keyLocked(c.caller)
			g[caller] = append(g[caller], m.keyLocked(c.callee))
		}
	}
	return g
}

// departure is a version that serves no longer and is not closed yet.
type departure struct {
	model *model.Model
	done  chan struct{} // closed when it is
}

// waitsLocked returns the departures of the models that have called name: it
// stays until they are gone, since their last requests may need it. Models that
// call each other do not wait.
func (m *Manager) waitsLocked(g uses.Graph, name string) []*departure {
	var waits []*departure
	for _, user := range g.Users(name) {
		if user != name && !slices.Contains(g.Users(user), name) {
			waits = append(waits, m.departing[user]...)
		}
	}
	return waits
}

// PinFor is Pin for a request that the model caller sends. While caller
// departs, it reaches also versions that depart after it.
func (m *Manager) PinFor(caller, name string, version int64) *model.Model {
	if v := m.Pin(name, version); v != nil || caller == "" {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.departing[caller]) == 0 {
		return nil
	}
	var best *model.Model
	for _, d := range m.departing[name] {
		v := d.model
		if version != -1 && v.Version() != version || best != nil && v.Version() < best.Version() || !v.Pin() {
			continue
		}
		if best != nil {
			best.Unpin()
		}
		best = v
	}
	return best
}

// Alive returns the versions that execute requests: those that serve, and those
// that still end what they have begun.
func (m *Manager) Alive() []*model.Model {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*model.Model
	for _, e := range m.models {
		for _, v := range e.versions {
			if v.model != nil {
				all = append(all, v.model)
			}
		}
	}
	for _, list := range m.departing {
		for _, d := range list {
			all = append(all, d.model)
		}
	}
	return all
}

// departLocked notes a departure, which departed ends.
func (m *Manager) departLocked(name string, v *model.Model) *departure {
	d := &departure{model: v, done: make(chan struct{})}
	m.departing[name] = append(m.departing[name], d)
	return d
}

func (m *Manager) departed(name string, d *departure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(m.departing[name]), func(other *departure) bool { return other == d })
	if len(left) == 0 {
		delete(m.departing, name)
	} else {
		m.departing[name] = left
	}
	close(d.done)
}
