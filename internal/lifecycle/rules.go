package lifecycle

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/rollout"
)

// rulesOf returns the rules that a model has from its next load on. Its file counts when
// it has changed; else what was said since stays.
func (m *Manager) rulesOf(p *plan, serve []int64) (routing, error) {
	m.mu.Lock()
	next := m.entryLocked(p.name).routing
	m.mu.Unlock()
	next.fresh = !bytes.Equal(next.text, p.snapshot.Rollout) || (next.text == nil) != (p.snapshot.Rollout == nil)
	if next.fresh {
		rules, err := rollout.Parse(p.snapshot.Rollout, p.name+"/"+rollout.File)
		if err != nil {
			return next, backend.Errorf(backend.InvalidArg, "%v", err)
		}
		next.text, next.rules, next.stepped = p.snapshot.Rollout, rules, nil
	}
	if next.rules.Empty() {
		return next, nil
	}
	if next.live == nil {
		next.live = rollout.NewLive()
	}
	no := func(int64) bool { return false } // this is known once the versions are open
	_, err := rollout.Make(next.rules, nil, rollout.Subject{
		Versions: slices.Sorted(slices.Values(serve)), Decoupled: no, Sequences: no, Passes: no,
	})
	return next, ruleError(p.name, next.text, err)
}

// checkRules looks at what the opened versions are. If the rules do not fit, it undoes
// the load.
func (m *Manager) checkRules(p *plan, next routing, serve []int64, all []opened) error {
	if next.rules.Empty() {
		return nil
	}
	configs := map[int64]*modelconfig.Config{}
	m.mu.Lock()
	for n, v := range m.models[p.name].versions {
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
	_, err := rollout.Make(next.rules, nil, m.subject(p.name, configs))
	err = ruleError(p.name, next.text, err)
	switch {
	case err == nil:
		return nil
	case len(all) == 0:
		return m.fail(p, err, false)
	}
	all[0].err = err
	return m.failed(p, all)
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
	if len(m.Lookup(name)) == 0 {
		return m.Explain(name, -1)
	}
	return backend.Errorf(backend.NotFound, "Request for unknown model: '%s' has no version with the label '%s'", name, label)
}

// Routing is what holds for the versions of a model at present.
type Routing struct {
	Name, Namespace string
	Versions        []int64
	Plan            *rollout.Plan // nil without rules
	Live            *rollout.Live // nil without rules
}

// Routing returns what holds for a model that serves.
func (m *Manager) Routing(name string) (Routing, error) {
	s := m.table.Load().models[name]
	if s == nil {
		return Routing{}, m.Explain(name, -1)
	}
	r := Routing{Name: name, Plan: s.plan, Live: s.live}
	for _, v := range s.versions {
		r.Versions = append(r.Versions, v.Version())
	}
	return r, nil
}

// Routings returns what holds for the models with rules, by name.
func (m *Manager) Routings() []Routing {
	t := m.table.Load()
	var all []Routing
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.models {
		if s := t.models[key]; s != nil && s.plan != nil {
			r := Routing{Plan: s.plan, Live: s.live}
			r.Namespace, r.Name = m.split(key)
			for _, v := range s.versions {
				r.Versions = append(r.Versions, v.Version())
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Routing) int {
		return bytes.Compare([]byte(a.Name+"\x00"+a.Namespace), []byte(b.Name+"\x00"+b.Namespace))
	})
	return all
}

// Route changes the rules of a model that serves, all at once: a request sees either the
// old ones or the new ones. It waits for a load of the model that is on its way.
func (m *Manager) Route(ctx context.Context, name string, change []byte) error {
	m.mu.Lock()
	err := m.ambiguousLocked(name)
	key := m.keyLocked(name)
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
	if len(m.Lookup(key)) == 0 {
		return m.Explain(key, -1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models[key]
	next := e.routing
	c, err := rollout.Amend(next.rules, change, "the request")
	if err != nil {
		return backend.Errorf(backend.InvalidArg, "%v", err)
	}
	if next.rules = c.Rules; c.Resume {
		next.stepped = nil
	}
	configs := map[int64]*modelconfig.Config{}
	for n, v := range e.versions {
		if v.state == Ready {
			configs[n] = v.model.Config()
		}
	}
	if len(configs) == 0 {
		return backend.Errorf(backend.Unavailable, "model '%s' has no version that is ready", key)
	}
	if !next.rules.Empty() {
		if _, err := rollout.Make(next.rules, next.stepped, m.subject(key, configs)); err != nil {
			return backend.Errorf(backend.InvalidArg, "the rules of model '%s' would not hold: %v", key, err)
		}
	}
	e.routing = next
	m.retireLocked(m.publishFittingLocked(key))
	m.log.Info("rules for the versions of the model changed", "model", key)
	return nil
}

// StepBack takes the weight of the watched version of a plan away, unless that has been
// replaced meanwhile. It says so once.
func (m *Manager) StepBack(name string, plan *rollout.Plan, live *rollout.Live, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, e := range m.models {
		s := m.table.Load().models[key]
		if e.routing.live != live || s == nil || s.plan != plan {
			continue
		}
		e.routing.stepped = &rollout.Stepped{At: time.Now(), Version: plan.Watched, Why: why}
		live.SteppedBack(plan.Watched)
		m.publishLocked(key)
		m.log.Warn("stepped back from a version, which gets no share of the requests until told otherwise",
			"model", name, "version", plan.Watched, "because", why)
		return
	}
}
