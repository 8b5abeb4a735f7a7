package lifecycle

import (
	"bytes"
	"context"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle/routing"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/rollout"
)

// rulesOf returns the rules that a model has when its load has ended.
func (m *Manager) rulesOf(p *plan, serve []int64) (routing.Rules, error) {
	m.mu.Lock()
	now := m.models.entry(p.name).rules
	m.mu.Unlock()
	if p.asItWas != nil {
		now = now.Partial()
		return now, now.CheckVersions(p.name, serve)
	}
	next, err := now.Read(p.name, p.snapshot.Rollout)
	if err == nil && !p.takesBack {
		err = next.CheckVersions(p.name, serve)
	}
	return next, err
}

// checkRules looks at what the opened versions are. If the rules do not fit, it undoes
// the load.
func (m *Manager) checkRules(p *plan, next routing.Rules, serve []int64, all []opened) error {
	if p.takesBack {
		return nil
	}
	configs := map[int64]*modelconfig.Config{}
	m.mu.Lock()
	for n, v := range m.models.entries[p.name].versions {
		if v.model != nil && slices.Contains(serve, n) {
			configs[n] = v.model.Config()
		}
	}
	m.mu.Unlock()
	for _, o := range all {
		if o.model != nil {
			configs[o.version] = o.model.Config()
		}
	}
	err := next.Check(m.Router, p.name, configs)
	switch {
	case err == nil:
		return nil
	case len(all) == 0:
		return m.fail(p, err, false)
	}
	m.turnBack(p, all, err)
	all[0].err = err
	return m.failed(p, all)
}

// servedLocked returns what requests see of a model with these versions.
func (m *Manager) servedLocked(name string, versions []*model.Model) *routing.Served {
	s, err := m.models.entries[name].rules.Serve(m.Router, name, versions)
	if err != nil {
		// A load would have been refused: a program has taken back versions that it binds.
		m.log.Error("the rules for the versions of the model do not hold, requests go to the latest one", "model", name, "error", err.Error())
	}
	return s
}

// PinInside is PinAsked for a request from inside the server, which the model caller may
// send, or nobody: without a label it is PinFor.
func (m *Manager) PinInside(caller, name string, ask *rollout.Ask) *model.Model {
	if ask.Label == "" {
		return m.PinFor(caller, name, ask.Version)
	}
	v, _ := m.PinAsked(name, ask)
	return v
}

// ExplainLabel says why there is no version of that label.
func (m *Manager) ExplainLabel(name, label string) *backend.Error {
	if !m.ServesNow(name) {
		return m.Explain(name, -1)
	}
	if v, ok := m.Labelled(name, label); ok {
		return m.Explain(name, v) // it has not come back with the others
	}
	return backend.Errorf(backend.NotFound, "Request for unknown model: '%s' has no version with the label '%s'", name, label)
}

// Routing returns what holds for a model, without its name; false when it does not serve,
// and was not evicted either: what that has comes back.
func (m *Manager) Routing(name string) (routing.Routing, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.routingLocked(m.models.key(name))
}

func (m *Manager) routingLocked(key string) (routing.Routing, bool) {
	r, there := m.Router.Routing(key)
	if e := m.models.entries[key]; !there && e != nil && e.had != nil {
		return e.rules.Describe(key, e.had.versions), true
	}
	return r, there
}

// Routings returns what holds for the models with rules, by name.
func (m *Manager) Routings() []routing.Routing {
	var all []routing.Routing
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.models.entries {
		if r, there := m.routingLocked(key); there && r.Plan != nil {
			r.Namespace, r.Name = m.split(key)
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b routing.Routing) int {
		return bytes.Compare([]byte(a.Name+"\x00"+a.Namespace), []byte(b.Name+"\x00"+b.Namespace))
	})
	return all
}

// Route changes the rules of a model that serves, all at once: a request sees either the
// old ones or the new ones. It waits for a load of the model that is on its way.
func (m *Manager) Route(ctx context.Context, name string, change []byte) error {
	m.mu.Lock()
	err := m.models.ambiguous(name)
	key := m.models.key(name)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	err = m.patiently(ctx, func() error {
		if err := m.claim(key, false); err != nil {
			return err
		}
		defer m.unclaim(key)
		return m.reroute(key, change)
	})
	if err == nil {
		m.renew([]string{key}) // another version may be the primary one now
	}
	return err
}

func (m *Manager) reroute(key string, change []byte) error {
	if !m.ServesNow(key) {
		return m.Explain(key, -1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models.entries[key]
	configs := map[int64]*modelconfig.Config{}
	for n, v := range e.versions {
		if v.state == Ready {
			configs[n] = v.model.Config()
		}
	}
	next, err := e.rules.Amend(m.Router, key, change, configs)
	if err != nil {
		return err
	}
	e.rules = next
	m.retireLocked(m.publishFittingLocked(key))
	m.log.Info("rules for the versions of the model changed", "model", key)
	return nil
}

// StepBack takes the weight of the watched version of a plan away, unless other rules have
// taken its place meanwhile. It says so once.
func (m *Manager) StepBack(name string, plan *rollout.Plan, live *rollout.Live, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, e := range m.models.entries {
		next, made := e.rules.SteppedBack(plan, live, why)
		if !made {
			continue
		}
		e.rules = next
		m.publishLocked(key)
		m.log.Warn("stepped back from a version, which gets no share of the requests until told otherwise",
			"model", name, "version", plan.Watched, "because", why)
		return
	}
}
