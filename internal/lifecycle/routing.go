package lifecycle

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/rollout"
)

// routing is how the requests of one model are shared among its versions.
type routing struct {
	// text is the file that was read last; rules are those of the file, or what has been
	// made of them since.
	text    []byte
	rules   rollout.Rules
	stepped *rollout.Stepped
	live    *rollout.Live // nil until there are rules
	fresh   bool          // the file has changed
}

// standing is what the index says of a version that serves.
func (r *routing) standing(version int64) string {
	if s := r.stepped; s != nil && s.Version == version {
		return "stepped back at " + s.At.UTC().Format(time.RFC3339) + ": " + s.Why
	}
	return ""
}

// still returns the step back that holds on when r takes the place of old: one that was
// made while a load was on its way counts as well.
func (r *routing) still(old *routing) *rollout.Stepped {
	if r.fresh {
		return nil
	}
	return old.stepped
}

// ruleError says whose rules do not fit.
func ruleError(name string, text []byte, err error) error {
	if err == nil {
		return nil
	}
	from := "the rules"
	if text != nil {
		from = rollout.File
	}
	return backend.Errorf(backend.InvalidArg, "%s of model '%s': %v", from, name, err)
}

// subject is what rules have to know of versions with these configurations.
func (m *Manager) subject(name string, configs map[int64]*modelconfig.Config) rollout.Subject {
	s := rollout.Subject{
		Name:      name,
		Decoupled: func(v int64) bool { return configs[v].Decoupled },
		Sequences: func(v int64) bool { return configs[v].Sequence != nil },
		Passes:    func(v int64) bool { return m.passes(configs[v]) },
	}
	for v := range configs {
		s.Versions = append(s.Versions, v)
	}
	slices.Sort(s.Versions)
	return s
}

// passes reports whether an ensemble hands sequences on to its steps.
func (m *Manager) passes(c *modelconfig.Config) bool {
	return c.Ensemble != nil && slices.ContainsFunc(c.Ensemble.Steps, func(s modelconfig.Step) bool {
		step := m.Find(s.Model, s.Version)
		return step != nil && (step.Config().Sequence != nil || m.passes(step.Config()))
	})
}

// servedLocked returns what requests see of a model with these versions.
func (m *Manager) servedLocked(name string, versions []*model.Model) *served {
	s := &served{versions: versions}
	r := &m.models[name].routing
	if r.rules.Empty() {
		return s
	}
	configs := map[int64]*modelconfig.Config{}
	for _, v := range versions {
		configs[v.Version()] = v.Config()
	}
	plan, err := rollout.Make(r.rules, r.stepped, m.subject(name, configs))
	if err != nil {
		// A load would have been refused: a program has taken back versions that it binds.
		m.log.Error("the rules for the versions of the model do not hold, requests go to the latest one", "model", name, "error", err.Error())
		return s
	}
	if r.live == nil {
		r.live = rollout.NewLive()
	}
	r.live.Apply(plan)
	s.plan, s.live, s.primary = plan, r.live, s.find(plan.Primary)
	return s
}

// PinAsked is Pin for a request of a client, which goes to the version that it asks for,
// or to one that the rules of the model choose. route says why, nil without rules.
func (m *Manager) PinAsked(name string, ask *rollout.Ask) (v *model.Model, route *rollout.Route) {
	t := m.table.Load()
	for {
		s := t.models[name]
		var why rollout.Reason
		switch {
		case s != nil && s.plan != nil:
			v, why = s.choose(ask)
		case ask.Label != "":
			return nil, nil
		default:
			v = s.find(ask.Version)
		}
		if v == nil || v.Pin() {
			if v != nil && s.plan != nil {
				route = &rollout.Route{Reason: why, Plan: s.plan, Live: s.live, Label: ask.Label}
			}
			return v, route
		}
		newer := m.table.Load()
		if newer == t {
			return nil, nil
		}
		t = newer
	}
}

// Choose chooses the version that PinAsked is to find for an ask that names none. Once it
// serves no longer, PinAsked chooses anew.
func (m *Manager) Choose(name string, ask rollout.Ask) rollout.Ask {
	s := m.table.Load().models[name]
	if s == nil || s.plan == nil || ask.Version != -1 {
		return ask
	}
	if v, why := s.choose(&ask); v != nil {
		ask.Version, ask.Chosen, ask.Reason = v.Version(), true, why
	}
	return ask
}

func (s *served) choose(ask *rollout.Ask) (*model.Model, rollout.Reason) {
	version := ask.Version
	if ask.Chosen {
		if v := s.find(version); v != nil {
			return v, ask.Reason
		}
		version = -1
	}
	switch {
	case ask.Label != "":
		if v, ok := s.plan.Label(ask.Label); ok {
			return s.find(v), rollout.ByLabel
		}
		return nil, rollout.ByLabel
	case version != -1:
		return s.find(version), rollout.ByNumber
	}
	key := ""
	if h := s.plan.Rules.Sticky; h != "" && ask.Fields != nil {
		key = ask.Fields.Field(h)
	}
	v, why := s.plan.Choose(key, rand.Uint64()) //nolint:gosec // the share of a version is no secret
	return s.find(v), why
}

// Sibling returns the version of a model, pinned, where a sequence has begun, or nil. It
// is not one that holds already.
func (m *Manager) Sibling(name string, id backend.CorrelationID, holds *model.Model) *model.Model {
	for _, v := range m.Lookup(name) {
		if v != holds && v.HoldsSequence(id) && v.Pin() {
			return v
		}
	}
	return nil
}

// Labelled returns the version that a label of a model stands for.
func (m *Manager) Labelled(name, label string) (int64, bool) {
	if s := m.table.Load().models[name]; s != nil && s.plan != nil {
		return s.plan.Label(label)
	}
	return 0, false
}

// HasRules reports whether there are rules for the versions of a model that serves.
func (m *Manager) HasRules(name string) bool {
	s := m.table.Load().models[name]
	return s != nil && s.plan != nil
}
