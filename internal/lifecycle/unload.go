package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle/departing"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/lifecycle/routing"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/repository"
)

// retired is a version that serves no longer.
type retired struct {
	name   string
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
		v.model, v.source, v.draft = nil, nil, nil
		return []retired{r}
	case Unavailable:
		v.unwanted = true
	default: // nothing serves
	}
	return nil
}

// retireLocked drains and closes versions in the background, each for itself,
// so that a slow one does not keep the memory of the others; but one that models
// have called, which depart too, after these.
func (m *Manager) retireLocked(old map[string][]retired) {
	departures := make(map[*departing.Departure]retired)
	for name, list := range old {
		for _, r := range list {
			r.name = name
			departures[m.departing.Add(name, r.model)] = r
		}
	}
	if len(departures) == 0 {
		return
	}
	g := m.callersLocked()
	for d, r := range departures {
		waits := m.departing.Before(g, r.name)
		m.retirements.Go(func() {
			defer m.departed(r.name, d)
			ctx, cancel := context.WithTimeout(m.drains, m.o.DrainTimeout)
			defer cancel()
			for _, w := range waits {
				select {
				case <-w.Done():
				case <-ctx.Done():
				}
			}
			m.retire(ctx, r)
		})
	}
}

func (m *Manager) retire(ctx context.Context, r retired) {
	r.source.Agents.Unload()
	err := r.model.Close(ctx)
	if err != nil {
		m.log.Warn(fmt.Sprintf("unloading '%s' version %d: %v", r.name, r.model.Version(), err),
			"model", r.name, "version", r.model.Version())
	}
	if errors.Is(err, model.ErrBusy) {
		// It stays as it is while its backend works, since that may use all of it.
		m.lingering.Go(func() {
			if err := r.model.Close(m.ended); !errors.Is(err, model.ErrBusy) {
				m.retired(r)
			}
		})
		return
	}
	m.retired(r)
}

// retired notes that a version is closed.
func (m *Manager) retired(r retired) {
	r.source.Release()
	m.book.Close(m.title(r.name, r.model.Version(), r.model.Config()), r.model.Stats())
	m.mu.Lock()
	if r.record != nil && r.record.moves == r.moves {
		r.record.move(Unavailable, ReasonUnloaded)
	}
	m.mu.Unlock()
	m.log.Info(fmt.Sprintf("successfully unloaded '%s' version %d", r.name, r.number), "model", r.name, "version", r.number)
}

// Unload takes a model, or with namespacing all of that name, out of service, with the ensembles that use it, and
// with dependents also the models that it has brought in and only it uses. It returns once no new
// request can reach them, before those in flight have ended. To unload what is
// not known is no error. A load that is in the way is an error.
func (m *Manager) Unload(name string, dependents bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unloadNamedLocked(name, dependents, away)
}

// Evict is Unload for who will load each model again that is asked for: the ensembles
// that go with it do not come back with it. An error comes at once when it has something
// to do; when the load that was in the way has ended, by then another model may be the one
// to leave; and when the server stops, at the end of ctx.
func (m *Manager) Evict(ctx context.Context, name string) error {
	m.mu.Lock()
	err := m.unloadNamedLocked(name, false, evicted)
	m.mu.Unlock()
	if err != nil && !errors.Is(err, errInUse) && !m.outlast(ctx, err) {
		<-ctx.Done()
	}
	return err
}

// errInUse says that a model is not evicted: a request has come since somebody saw it idle.
// It might begin a sequence, whose next request would find no model that knows of it.
var errInUse = errors.New("the model has requests, or sequences that have not ended")

// refuseLocked has models refuse requests, so that nobody comes between the look whether one
// is in use and its end. It returns false, and they serve on, where one is.
func (m *Manager) refuseLocked(names []string) bool {
	before := m.Table()
	models, all := before.Models(), []*model.Model(nil)
	for _, name := range names {
		if models[name] != nil {
			all = append(all, m.Lookup(name)...)
			delete(models, name)
		}
	}
	if slices.ContainsFunc(all, func(v *model.Model) bool { return v.Unfinished() > 0 }) {
		return false
	}
	// Who is refused looks whether another table is there, and waits for the model then.
	m.publish(routing.NewTable(models))
	for i, v := range all {
		if !v.Refuse() {
			for _, refused := range all[:i] {
				refused.Admit()
			}
			m.publish(routing.NewTable(before.Models()))
			return false
		}
	}
	return true
}

func (m *Manager) unloadNamedLocked(name string, dependents bool, how leaving) error {
	if m.refuse {
		return backend.Errorf(backend.Unavailable, "Server not ready")
	}
	g := m.models.graph()
	var names, users []string
	for _, key := range m.models.named(name) {
		names, users = append(names, key), append(users, g.Users(key)...)
		if dependents {
			names = append(names, g.Exclusive(key, m.models.pulled)...)
		}
	}
	for _, n := range slices.Concat(names, users) {
		if m.claims.blocks(n, false) {
			return reason.Related(n, false)
		}
	}
	if how == evicted {
		if names, users = append(names, users...), nil; !m.refuseLocked(names) {
			return errInUse
		}
	}
	m.unloadLocked(names, users, how)
	return nil
}

// UnloadAfter is Unload, after the loads that are in the way.
func (m *Manager) UnloadAfter(ctx context.Context, name string, dependents bool) error {
	return m.patiently(ctx, func() error { return m.Unload(name, dependents) })
}

// Unloaded waits until no version of a model is unloading, or ctx ends.
func (m *Manager) Unloaded(ctx context.Context, name string) error {
	for {
		left := m.unloading(name)
		if left == nil {
			return nil
		}
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unloading returns what is closed when one of the versions that unload has
// done so; nil if there are none.
func (m *Manager) unloading(name string) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.models.keys(name) {
		if e := m.models.entries[key]; e != nil {
			for _, v := range e.versions {
				if v.left != nil {
					return v.left
				}
			}
		}
	}
	return nil
}

// unloadLocked takes all versions of the models out of service; users are ensembles
// that come back with what they lack then.
func (m *Manager) unloadLocked(names, users []string, how leaving) {
	old := map[string][]retired{}
	for _, name := range users {
		if !slices.Contains(names, name) {
			old[name] = m.awayLocked(name, returns)
		}
	}
	for _, name := range names {
		old[name] = append(old[name], m.awayLocked(name, how)...)
	}
	m.publishLocked(slices.Concat(names, users)...)
	m.retireLocked(old)
}

// leaving is how a model goes.
type leaving uint8

const (
	away    leaving = iota // until somebody loads it, and it begins anew
	returns                // it is an ensemble which comes back as it is when its parts do
	evicted                // a request brings it back as it is
)

// awayLocked ends the service of all versions of a model.
func (m *Manager) awayLocked(name string, how leaving) (old []retired) {
	e := m.models.entries[name]
	if e == nil {
		return nil
	}
	e.had = nil
	if how == evicted && e.snapshot != nil {
		e.had = &past{config: e.snapshot.File()}
	}
	for _, n := range e.numbers() {
		if e.had != nil && e.versions[n].state == Ready {
			e.had.versions = append(e.had.versions, n)
		}
		old = append(old, e.takeAway(n)...)
	}
	switch {
	case how != returns:
		e.comesBackFrom(nil)
	case e.snapshot != nil:
		e.comesBackFrom(e.snapshot)
		e.wants = e.parts
	}
	if e.snapshot != nil {
		e.snapshot.Release()
		e.snapshot = nil
	}
	e.parts = nil
	if how == away {
		e.rules = e.rules.Unloaded()
	}
	if len(e.versions) == 0 {
		delete(m.models.entries, name) // it never had a version and is not wanted
	}
	return old
}
