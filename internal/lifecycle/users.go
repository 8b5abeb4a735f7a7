package lifecycle

import (
	"fmt"
	"slices"

	"github.com/nesoserve/neso/internal/lifecycle/routing"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
)

// comesBackFrom notes what an ensemble that does not serve is to be loaded from when
// its parts are there; nil: it stays away.
func (e *entry) comesBackFrom(s *repository.Snapshot) {
	if s != nil {
		s.Retain()
	}
	if e.returns != nil {
		e.returns.Release()
	}
	e.returns = s
}

// madeOf returns the models that an ensemble is made of, or that it waits for while it
// does not serve.
func (e *entry) madeOf() []string {
	if len(e.parts) == 0 && e.returns != nil {
		return e.wants
	}
	return e.parts
}

// lastOf returns what an ensemble was read as last, for its caller to release; nil where
// it has to be read again, since agents are told of each load.
func (m *Manager) lastOf(name string) *repository.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models.entries[name]
	if e == nil {
		return nil
	}
	s := e.snapshot
	if s == nil {
		s = e.returns
	}
	if s == nil || s.Agents != nil {
		return nil
	}
	return s.Retain()
}

// publishFittingLocked makes the ready versions of a model what requests see, and takes
// away the ensembles that do not fit them, of which it returns the versions to close.
func (m *Manager) publishFittingLocked(name string) map[string][]retired {
	gone := map[string][]retired{}
	for _, user := range m.misfitsLocked(name) {
		m.log.Error(fmt.Sprintf("ensemble '%s' no longer serves: it does not fit model '%s' as it is now", user, name), "model", user)
		gone[user] = m.awayLocked(user, returns)
	}
	names := []string{name}
	for user := range gone {
		names = append(names, user)
	}
	m.publishLocked(names...)
	return gone
}

// misfitsLocked returns the ensembles that a model takes along as it is now, those that
// use these included. One that a load is working on is checked by that load, when it
// ends: it comes here by its own name then.
func (m *Manager) misfitsLocked(name string) []string {
	var misfits []string
	var next *routing.Table
	g := m.models.graph()
	for user, parts := range g {
		if user != name && !slices.Contains(parts, name) {
			continue
		}
		if next == nil { // it is a copy of all that is served: most models are in no ensemble
			next = m.nextLocked(name)
		}
		c := next.Config(user, -1)
		if c == nil || c.Ensemble == nil {
			continue
		}
		if _, err := ensemble.NewGraph(c, next.Config); err != nil {
			m.log.Error(err.Error(), "model", user)
			misfits = append(misfits, user)
		}
	}
	misfits = append(misfits, g.Users(misfits...)...)
	slices.Sort(misfits)
	return slices.DeleteFunc(slices.Compact(misfits), func(user string) bool { return user != name && m.claims.claimed[user] })
}

// drop takes away an ensemble that its caller has claimed, if what serves of it does not
// fit its parts: they may have been loaded for what it was to become.
func (m *Manager) drop(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retireLocked(m.publishFittingLocked(name))
}

// renew loads the ensembles that use any of the models that a load has changed, once
// each, after those that they are made of. One that lacks another part stays away: that
// was unloaded, too.
func (m *Manager) renew(changed []string) {
	for _, name := range m.affected(changed) {
		if !m.due(name, changed) {
			continue
		}
		m.log.Info(fmt.Sprintf("loading ensemble '%s', a model of which has been loaded", name), "model", name)
		err := m.patiently(m.ctx, func() error {
			_, err := m.loadClaimed(Request{Name: name, again: true}, new(effects))
			return err
		})
		if err == nil { // else the log and the index have the reason
			changed = append(changed, name)
		}
	}
}

// renewBehind is renew for who must not wait: the load of a model that another one has
// asked for, which an ensemble may be waiting for.
func (m *Manager) renewBehind(changed []string) {
	if len(m.affected(changed)) > 0 {
		_ = m.begin(func() { m.renew(changed) }) // refused: everything ends
	}
}

func (m *Manager) affected(models []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.models.affected(models)
}

// due reports whether one of the models that have changed is a part of an ensemble
// which then serves, or would.
func (m *Manager) due(name string, changed []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models.entries[name]
	if e == nil {
		return false
	}
	parts := e.madeOf()
	uses := slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(changed, part) })
	return uses && !slices.ContainsFunc(parts, func(part string) bool { return !m.servesLocked(part) })
}
