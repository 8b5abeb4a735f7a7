package lifecycle

import (
	"context"
	"slices"
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
	users := m.models.wanters(append(slices.Clone(load), gone...))
	used, free := m.models.used(gone)
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
