package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/repository"
)

// retired is a version that serves no longer.
type retired struct {
	model  *model.Model
	source *repository.Snapshot
	number int64
	record *version // nil for one that was replaced
	moves  int
}

// takeAway ends the service of one version. A version that is not loaded is
// marked as not wanted.
func (e *entry) takeAway(n int64) []retired {
	v := e.versions[n]
	switch v.state {
	case Ready:
		v.move(Unloading, "")
		r := retired{model: v.model, source: v.source, number: n, record: v, moves: v.moves}
		v.model, v.source = nil, nil
		return []retired{r}
	case Unavailable:
		v.move(Unavailable, reasonUnloaded)
	default: // nothing serves
	}
	return nil
}

// retireLocked drains and closes versions in the background, each for itself:
// a slow one does not keep the memory of the others.
func (m *Manager) retireLocked(name string, old []retired) {
	for _, r := range old {
		m.retirements.Go(func() {
			ctx, cancel := context.WithTimeout(m.drains, m.o.DrainTimeout)
			defer cancel()
			m.retire(ctx, name, r)
		})
	}
}

func (m *Manager) retire(ctx context.Context, name string, r retired) {
	if err := r.model.Close(ctx); err != nil {
		m.log.Warn(fmt.Sprintf("unloading '%s' version %d: %v", name, r.model.Version(), err), "model", name, "version", r.model.Version())
	}
	r.source.Release()
	if r.record == nil {
		return
	}
	m.mu.Lock()
	if r.record.moves == r.moves {
		r.record.move(Unavailable, reasonUnloaded)
	}
	m.mu.Unlock()
	m.log.Info(fmt.Sprintf("successfully unloaded '%s' version %d", name, r.number), "model", name, "version", r.number)
}

// Unload takes a model out of service, with the ensembles that use it, and
// with dependents also the models that only it uses. It returns once no new
// request can reach them, before those in flight have ended. To unload what is
// not known is no error.
func (m *Manager) Unload(name string, dependents bool) error {
	if err := repository.CheckName(name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse {
		return backend.Errorf(backend.Unavailable, "Server not ready")
	}
	g := m.graphLocked()
	names := append([]string{name}, g.users(name)...)
	if dependents {
		names = append(names, g.exclusive(name)...)
	}
	for _, n := range names {
		if m.claimed[n] {
			return backend.Errorf(backend.Internal, "a related model '%s' to a load/unload request is currently loading or unloading", n)
		}
	}
	m.unloadLocked(names)
	return nil
}

// unloadLocked takes all versions of the models out of service.
func (m *Manager) unloadLocked(names []string) {
	old := map[string][]retired{}
	for _, name := range names {
		e := m.models[name]
		if e == nil {
			continue
		}
		for _, n := range e.numbers() {
			old[name] = append(old[name], e.takeAway(n)...)
		}
		if e.snapshot != nil {
			e.snapshot.Release()
			e.snapshot = nil
		}
		e.parts = nil
		if len(e.versions) == 0 {
			delete(m.models, name) // it never had a version and is not wanted
		}
	}
	m.publishLocked(names...)
	for _, name := range names {
		m.retireLocked(name, old[name])
	}
}

// graphLocked returns the loaded ensembles with their parts.
func (m *Manager) graphLocked() graph {
	g := graph{}
	for name, e := range m.models {
		if len(e.parts) > 0 {
			g[name] = slices.Clone(e.parts)
		}
	}
	return g
}
