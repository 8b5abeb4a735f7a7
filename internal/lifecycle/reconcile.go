package lifecycle

import (
	"context"
	"slices"
)

// Reconcile takes changes of the repositories: models that are gone are
// unloaded, those in load are loaded or reloaded, and ensembles that use any of
// them are loaded anew. present are all models that there are. A change that
// fails leaves what serves as it is; the index says why. It returns what failed.
func (m *Manager) Reconcile(ctx context.Context, load, gone, present []string) []Failure {
	m.mu.Lock()
	users := m.wantersLocked(append(slices.Clone(load), gone...))
	m.mu.Unlock()
	var failures []Failure
	for _, name := range gone {
		if err := m.Unload(name, false); err != nil {
			failures = append(failures, Failure{Model: name, Err: err, Temporary: true})
		}
	}
	for _, user := range users {
		if slices.Contains(present, user) && !slices.Contains(load, user) {
			load = append(load, user)
		}
	}
	if len(load) == 0 {
		return failures
	}
	failed := m.LoadAll(ctx, load)
	m.mu.Lock()
	for _, f := range failed {
		if e := m.models[f.Model]; e != nil && f.Err != nil {
			e.rejected = f.Err.Error()
		}
	}
	m.mu.Unlock()
	return append(failures, failed...)
}

// wantersLocked returns the ensembles that use any of the names, directly or
// through others, loaded or not.
func (m *Manager) wantersLocked(names []string) []string {
	g := graph{}
	for name, e := range m.models {
		if len(e.wants) > 0 {
			g[name] = e.wants
		}
	}
	return g.users(names...)
}
