package lifecycle

import (
	"context"
	"slices"

	"github.com/nesoserve/neso/internal/lifecycle/uses"
)

// Reconcile takes changes of the repositories: models that are gone are
// unloaded, those in load are loaded or reloaded, and ensembles that use any of
// them are loaded anew. present are all models that there are. A change that
// fails leaves what serves as it is; the index says why. It returns what failed.
//
// A model that ensembles use goes after the loads: those that find another model
// for the step serve without a gap.
func (m *Manager) Reconcile(ctx context.Context, load, gone, present []string) []Failure {
	m.mu.Lock()
	users := m.wantersLocked(append(slices.Clone(load), gone...))
	used, free := m.usedLocked(gone)
	m.leaving = used
	m.mu.Unlock()
	failures := m.unloadEach(free)
	for _, user := range users {
		if slices.Contains(present, user) && !slices.Contains(load, user) {
			load = append(load, user)
		}
	}
	var failed []Failure
	if len(load) > 0 {
		failed = m.LoadAll(ctx, load)
	}
	failures = append(failures, m.unloadEach(used)...)
	m.mu.Lock()
	m.leaving = nil
	m.mu.Unlock()
	for _, f := range failed {
		m.reject(f.Model, f.Err)
	}
	return append(failures, failed...)
}

func (m *Manager) unloadEach(names []string) (failures []Failure) {
	for _, name := range names {
		if err := m.Unload(name, false); err != nil {
			failures = append(failures, Failure{Model: name, Err: err, Temporary: true})
		}
	}
	return failures
}

// usedLocked splits the models that are gone into those that loaded ensembles use
// which are not gone themselves, and the others.
func (m *Manager) usedLocked(gone []string) (used, free []string) {
	g := m.graphLocked()
	for _, name := range gone {
		if slices.ContainsFunc(g.Users(name), func(user string) bool { return !slices.Contains(gone, user) }) {
			used = append(used, name)
		} else {
			free = append(free, name)
		}
	}
	return used, free
}

func (m *Manager) serves(part string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.servesLocked(part)
}

// servesLocked reports whether a part of an ensemble can be had without loading it.
// One that is about to be unloaded cannot: the ensemble would go with it.
func (m *Manager) servesLocked(part string) bool {
	return !slices.Contains(m.leaving, part) && len(m.Lookup(part)) > 0
}

// wantersLocked returns the ensembles that use any of the names, directly or
// through others, loaded or not; and those that may use them from now on.
func (m *Manager) wantersLocked(names []string) []string {
	g := uses.Graph{}
	for name, e := range m.models {
		if len(e.wants) > 0 {
			g[name] = e.wants
		}
	}
	users := g.Users(names...)
	for ensemble, parts := range g {
		if m.turnsTo(ensemble, parts, names) {
			users = append(append(users, ensemble), g.Users(ensemble)...)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// turnsTo reports whether one of the names may take the place of a part that an
// ensemble has from another namespace: one of its own does, and any does where
// the part was not found.
func (m *Manager) turnsTo(ensemble string, parts, names []string) bool {
	space, _ := m.split(ensemble)
	for _, key := range names {
		in, name := m.split(key)
		for _, part := range parts {
			from, of := m.split(part)
			if in != "" && of == name && part != key && (in == space || from == "") {
				return true
			}
		}
	}
	return false
}
