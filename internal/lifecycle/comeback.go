package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/repository"
)

// past is what a model was when it was evicted.
type past struct {
	versions []int64
	config   repository.Config
}

// asItWas is how a model comes back for which that does not load which the repository has
// now. A model that had not left would go on as it was, whatever happened to its files: who
// is served must not depend on whether it has left meanwhile.
type asItWas struct {
	had     *past
	failure error // why it does not come back as the repository has it
	// opened are versions that are loaded already.
	opened []opened
}

// pastOf returns what a model that is being brought back was; nil where it was nothing.
func (m *Manager) pastOf(name string, back bool) *past {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.models.entries[name]; back && e != nil && e.had != nil && len(e.versions) > 0 {
		return e.had
	}
	return nil
}

// pollBack reads a model with the configuration that it had when it was evicted, since it
// has another one now, with which it fails. It returns nil where there is nothing to go back to.
func (m *Manager) pollBack(r Request, failure error) *plan {
	had := m.pastOf(r.Name, r.Back)
	if had == nil || reason.IsBusy(failure) || reason.IsRefused(failure) || backend.AsError(failure).Code == backend.PermissionDenied {
		return nil
	}
	s, err := m.o.Repository.ReadAs(m.ctx, r.Name, had.config, m.log)
	if err != nil || s == nil {
		return nil // the failure says more
	}
	p := &plan{name: r.Name, nested: r.Nested, back: true, snapshot: s, asItWas: &asItWas{had: had, failure: failure}}
	if err := m.configure(p); err != nil {
		s.Release()
		return nil
	}
	p.narrow(nil)
	return p
}

// loadBack is load for a model that may be one that comes back: where that fails, it
// comes back with its former configuration.
func (m *Manager) loadBack(p *plan, load func(p *plan) error) error {
	unread := p.effects.unread
	err := load(p)
	if err == nil || !p.back || p.asItWas != nil {
		return err
	}
	then := m.pollBack(Request{Name: p.name, Nested: p.nested, Back: true}, err)
	if then == nil {
		return err
	}
	defer then.snapshot.Release()
	then.effects, then.path, then.known = p.effects, p.path, p.known
	if again := load(then); again != nil {
		if reason.IsBusy(again) {
			return again
		}
		return err
	}
	p.effects.unread = unread // no part of it, as it is
	p.leaving = append(p.leaving, then.leaving...)
	return nil
}

// narrow has a plan serve what the model had when it was evicted, but for what is gone and
// what is known to fail.
func (p *plan) narrow(failed []int64) {
	p.policy = modelconfig.VersionPolicy{Specific: slices.DeleteFunc(slices.Clone(p.asItWas.had.versions), func(n int64) bool {
		return !slices.Contains(p.snapshot.Versions, n) || slices.Contains(failed, n)
	})}
}

// turnBack has the next try of a plan that has failed bring the model back as it was, with
// those of its versions that do not fail. It does nothing where the model does not come
// back, and where its configuration is another one now, which all is read anew for.
func (m *Manager) turnBack(p *plan, all []opened, failure error) {
	had := m.pastOf(p.name, p.back)
	if had == nil || p.asItWas != nil || !p.snapshot.HasConfig(had.config) {
		return
	}
	p.asItWas = &asItWas{had: had, failure: failure}
	var failed []int64
	for _, o := range all {
		if o.err != nil {
			failed = append(failed, o.version)
		}
	}
	p.narrow(failed)
	for i := range all {
		if o := &all[i]; o.model != nil && slices.Contains(p.policy.Specific, o.version) {
			p.asItWas.opened = append(p.asItWas.opened, *o)
			o.model = nil
		}
	}
}

// take returns a version that an earlier try of the plan has opened, if it has.
func (w *asItWas) take(version int64) (o opened, ok bool) {
	if w == nil {
		return o, false
	}
	i := slices.IndexFunc(w.opened, func(o opened) bool { return o.version == version })
	if i < 0 {
		return o, false
	}
	o = w.opened[i]
	w.opened = slices.Delete(w.opened, i, i+1)
	return o, true
}

// leave takes what failed to open out of what a model comes back with, unless that is all.
func (m *Manager) leave(p *plan, serve []int64, all []opened) ([]int64, []opened) {
	bad := func(o opened) bool { return o.err != nil }
	if p.asItWas == nil || !slices.ContainsFunc(all, func(o opened) bool { return o.err == nil }) {
		return serve, all
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range all {
		if bad(o) {
			m.models.entries[p.name].versions[o.version].move(Unavailable, reason.WithCode(o.err))
			serve = slices.DeleteFunc(serve, func(n int64) bool { return n == o.version })
		}
	}
	return serve, slices.DeleteFunc(all, bad)
}

// cameBack logs that a model has come back as it was, and notes it for the index.
func (m *Manager) cameBack(p *plan, serve []int64) {
	was := p.asItWas
	what := fmt.Sprintf("the versions that it had when it left, %v", serve)
	if !slices.Equal(serve, was.had.versions) {
		what = fmt.Sprintf("the versions %v of the %v that it had when it left", serve, was.had.versions)
	}
	if p.snapshot.Kept() {
		what = "the configuration that it had when it left, and " + what
	}
	m.log.Error(fmt.Sprintf("'%s' comes back with %s: %s", p.name, what, strings.TrimSpace(was.failure.Error())), "model", p.name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.models.entries[p.name].lacks = was.failure
}

// incomplete begins what the index says of a model that lacks something.
const incomplete = "it came back without what does not load: "

// Lacks returns why a model has come back that is not all that the repository has; nil for
// one that is, and for one that does not serve.
func (m *Manager) Lacks(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.models.entries[m.models.key(name)]; e != nil && e.ready() != nil {
		return e.lacks
	}
	return nil
}

// Incomplete returns how many models serve of which Lacks says something.
func (m *Manager) Incomplete() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.All() {
		if e := m.models.entries[name]; e != nil && e.lacks != nil {
			n++
		}
	}
	return n
}
