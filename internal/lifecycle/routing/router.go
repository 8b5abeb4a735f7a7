package routing

import (
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/rollout"
)

// Router finds versions for requests. Its methods take no lock.
type Router struct{ table atomic.Pointer[Table] }

// New returns a router of an empty table, and what gives it another one.
func New() (r *Router, publish func(*Table)) {
	r = &Router{}
	r.table.Store(NewTable(map[string]*Served{}))
	return r, r.table.Store
}

// Table returns what serves at present.
func (r *Router) Table() *Table { return r.table.Load() }

// Pin returns a ready version, kept loaded until Unpin, or the latest one for
// version -1. It returns nil when there is none. It does not allocate.
func (r *Router) Pin(name string, version int64) *model.Model {
	t := r.table.Load()
	for {
		v := t.models[name].find(version)
		if v == nil || v.Pin() {
			return v
		}
		// The version was taken away between the look-up and the pin.
		newer := r.table.Load()
		if newer == t {
			return nil
		}
		t = newer
	}
}

// PinAsked is Pin for a request of a client, which goes to the version that it asks for,
// or to one that the rules of the model choose. route says why, nil without rules.
func (r *Router) PinAsked(name string, ask *rollout.Ask) (v *model.Model, route *rollout.Route) {
	t := r.table.Load()
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
		newer := r.table.Load()
		if newer == t {
			return nil, nil
		}
		t = newer
	}
}

// Choose chooses the version that PinAsked is to find for an ask that names none. Once it
// serves no longer, PinAsked chooses anew.
func (r *Router) Choose(name string, ask rollout.Ask) rollout.Ask {
	s := r.table.Load().models[name]
	if s == nil || s.plan == nil || ask.Version != -1 {
		return ask
	}
	if v, why := s.choose(&ask); v != nil {
		ask.Version, ask.Chosen, ask.Reason = v.Version(), true, why
	}
	return ask
}

func (s *Served) choose(ask *rollout.Ask) (*model.Model, rollout.Reason) {
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

// Sibling returns the version of a model in which a sequence has begun, pinned; nil
// where there is none but holds.
func (r *Router) Sibling(name string, id backend.CorrelationID, holds *model.Model) *model.Model {
	for _, v := range r.Lookup(name) {
		if v != holds && v.HoldsSequence(id) && v.Pin() {
			return v
		}
	}
	return nil
}

// Labelled returns the version that a label of a model stands for.
func (r *Router) Labelled(name, label string) (int64, bool) {
	if s := r.table.Load().models[name]; s != nil && s.plan != nil {
		return s.plan.Label(label)
	}
	return 0, false
}

// HasRules reports whether there are rules for the versions of a model that serves.
func (r *Router) HasRules(name string) bool {
	s := r.table.Load().models[name]
	return s != nil && s.plan != nil
}

// Routing returns what holds for a model, without its name; false when it does not serve.
func (r *Router) Routing(name string) (Routing, bool) {
	s := r.table.Load().models[name]
	if s == nil {
		return Routing{}, false
	}
	return s.describe(), true
}

// Find is Pin without a pin: what it returns may be closed at any time.
func (r *Router) Find(name string, version int64) *model.Model {
	return r.table.Load().models[name].find(version)
}

// Lookup returns the ready versions of a model in ascending order, unpinned.
// The slice must not be changed.
func (r *Router) Lookup(name string) []*model.Model {
	if s := r.table.Load().models[name]; s != nil {
		return s.versions
	}
	return nil
}

// All has the models that serve, in no order, with their ready versions, as Lookup.
func (r *Router) All() iter.Seq2[string, []*model.Model] {
	return func(yield func(string, []*model.Model) bool) {
		for name, s := range r.table.Load().models {
			if !yield(name, s.versions) {
				return
			}
		}
	}
}

// ServesNow reports whether a version of a model is ready.
func (r *Router) ServesNow(name string) bool { return len(r.Lookup(name)) > 0 }

// Ready returns nil, or why v, found as that version of the model (-1: the
// latest), cannot serve at present. What it says while another version takes its
// place is not heard: that one is asked. gone reports that none has taken it.
func (r *Router) Ready(name string, version int64, v *model.Model) (gone bool, err error) {
	for {
		if err = v.Ready(); err == nil {
			return false, nil
		}
		switch now := r.table.Load().models[name].find(version); now {
		case nil:
			return true, err
		case v:
			return false, err
		default:
			v = now
		}
	}
}

// Serving returns the names of all models with a ready version, sorted.
func (r *Router) Serving() []string {
	return slices.Sorted(maps.Keys(r.table.Load().models))
}

// subject is what rules have to know of versions with these configurations.
func (r *Router) subject(name string, configs map[int64]*modelconfig.Config) rollout.Subject {
	return rollout.Subject{
		Name:      name,
		Versions:  slices.Sorted(maps.Keys(configs)),
		Sequences: func(v int64) bool { return configs[v].Sequence != nil },
		Passes:    func(v int64) bool { return r.passes(configs[v]) },
	}
}

// passes reports whether an ensemble hands sequences on to its steps.
func (r *Router) passes(c *modelconfig.Config) bool {
	return c.Ensemble != nil && slices.ContainsFunc(c.Ensemble.Steps, func(s modelconfig.Step) bool {
		step := r.Find(s.Model, s.Version)
		return step != nil && (step.Config().Sequence != nil || r.passes(step.Config()))
	})
}
