package routing

import (
	"bytes"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/rollout"
)

// Rules say how the requests of one model are shared among its versions, and where that
// comes from. The zero value has none. Values are copied; a change makes a new one.
type Rules struct {
	// text is the file that was read last; rules are those of the file, or what has been
	// made of them since.
	text    []byte
	rules   rollout.Rules
	stepped *rollout.Stepped
	live    *rollout.Live // nil until there are rules
	fresh   bool          // the file has changed
	partial bool          // see Partial
	era     uint64        // see rollout.Plan
}

// Read returns the rules that a model has from its next load on. Its file, nil where
// there is none, counts when it has changed; else what was said since stays.
func (r Rules) Read(name string, file []byte) (Rules, error) {
	r.partial = false
	r.fresh = !bytes.Equal(r.text, file) || (r.text == nil) != (file == nil)
	if r.fresh {
		rules, err := rollout.Parse(file, name+"/"+rollout.File)
		if err != nil {
			return r, backend.Errorf(backend.InvalidArg, "%v", err)
		}
		r.text, r.rules, r.stepped = file, rules, nil
		r.era++
	}
	if !r.rules.Empty() && r.live == nil {
		r.live = rollout.NewLive()
	}
	return r, nil
}

// CheckVersions says what is wrong with the rules for a model that is to serve these
// versions, as far as that is known before they are open.
func (r Rules) CheckVersions(name string, serve []int64) error {
	if r.rules.Empty() {
		return nil
	}
	return r.hold(name, unopened(serve))
}

// unopened are versions of which nothing but their number is known.
func unopened(versions []int64) rollout.Subject {
	no := func(int64) bool { return false }
	return rollout.Subject{Versions: slices.Sorted(slices.Values(versions)), Sequences: no, Passes: no}
}

// Describe returns what will hold for a model that is to serve these versions again.
func (r Rules) Describe(name string, versions []int64) Routing {
	d := Routing{Versions: versions}
	if r.rules.Empty() {
		return d
	}
	of := unopened(versions)
	of.Name, of.Partial = name, r.partial
	if plan, err := rollout.Make(r.rules, r.stepped, of); err == nil {
		d.Plan, d.Live = plan, r.live
	}
	return d
}

// Check says what is wrong with the rules for versions with these configurations. by
// knows what steps of ensembles are.
func (r Rules) Check(by *Router, name string, configs map[int64]*modelconfig.Config) error {
	if r.rules.Empty() {
		return nil
	}
	return r.hold(name, by.subject(name, configs))
}

func (r Rules) hold(name string, of rollout.Subject) error {
	var stepped *rollout.Stepped // may be over when the load is, but for who goes on as it was
	if of.Partial = r.partial; r.partial {
		stepped = r.stepped
	}
	_, err := rollout.Make(r.rules, stepped, of)
	return r.fault(name, err)
}

// Partial returns the rules for a model that lacks versions which they name, until they
// are read again.
func (r Rules) Partial() Rules {
	r.partial, r.fresh = true, false
	return r
}

// fault says whose rules do not fit.
func (r Rules) fault(name string, err error) error {
	if err == nil {
		return nil
	}
	from := "the rules"
	if r.text != nil {
		from = rollout.File
	}
	return backend.Errorf(backend.InvalidArg, "%s of model '%s': %v", from, name, err)
}

// Amend returns the rules with a change of a request, if they hold for versions with
// these configurations then.
func (r Rules) Amend(by *Router, name string, change []byte, configs map[int64]*modelconfig.Config) (Rules, error) {
	c, err := rollout.Amend(r.rules, change, "the request")
	if err != nil {
		return r, backend.Errorf(backend.InvalidArg, "%v", err)
	}
	if len(configs) == 0 {
		return r, backend.Errorf(backend.Unavailable, "model '%s' has no version that is ready", name)
	}
	next := r
	if next.rules = c.Rules; c.Resume {
		next.stepped = nil
		next.era++
	}
	if !next.rules.Empty() {
		if _, err := rollout.Make(next.rules, next.stepped, by.subject(name, configs)); err != nil {
			return r, backend.Errorf(backend.InvalidArg, "the rules of model '%s' would not hold: %v", name, err)
		}
	}
	return next, nil
}

// After returns the rules as they take the place of old. A step back that was made while
// a load was on its way holds on, unless the file has changed.
func (r Rules) After(old Rules) Rules {
	if r.stepped = old.stepped; r.fresh {
		r.stepped = nil
	}
	return r
}

// SteppedBack returns the rules without the weight of the version that plan watches. It
// returns false where they are no longer those of plan and live, in what counts for that.
// That another plan has been made of them since, for a load of the model, or none, since it
// has left memory, takes nothing back of what its requests have shown.
func (r Rules) SteppedBack(plan *rollout.Plan, live *rollout.Live, why string) (Rules, bool) {
	if r.live != live || r.stepped != nil || r.era != plan.Era || r.rules.Watched() != plan.Watched {
		return r, false
	}
	r.stepped = &rollout.Stepped{At: time.Now(), Version: plan.Watched, Why: why}
	live.SteppedBack(plan.Watched)
	return r, true
}

// Unloaded returns what is left of the rules of a model that has been unloaded: what has
// been counted.
func (r Rules) Unloaded() Rules { return Rules{live: r.live, era: r.era + 1} }

// Standing is what the index says of a version that serves.
func (r Rules) Standing(version int64) string {
	if s := r.stepped; s != nil && s.Version == version {
		return "stepped back at " + s.At.UTC().Format(time.RFC3339) + ": " + s.Why
	}
	return ""
}

// Serve returns what requests see of a model with these versions, ascending, under the
// rules. With an error, of rules that do not hold, they go to the latest one.
func (r *Rules) Serve(by *Router, name string, versions []*model.Model) (*Served, error) {
	s := &Served{versions: versions}
	if r.rules.Empty() {
		return s, nil
	}
	configs := map[int64]*modelconfig.Config{}
	for _, v := range versions {
		configs[v.Version()] = v.Config()
	}
	of := by.subject(name, configs)
	of.Partial = r.partial
	plan, err := rollout.Make(r.rules, r.stepped, of)
	if err != nil {
		return s, err
	}
	if r.live == nil {
		r.live = rollout.NewLive()
	}
	plan.Era = r.era
	r.live.Apply(plan)
	s.plan, s.live, s.primary = plan, r.live, s.find(plan.Primary)
	return s, nil
}
