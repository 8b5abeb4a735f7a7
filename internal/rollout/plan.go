package rollout

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reason says why a request went to its version.
type Reason uint8

// The reasons.
const (
	ByNumber   Reason = iota // the client named the version
	ByLabel                  // the client named its label
	ByWeight                 // by chance
	BySticky                 // by the value of the sticky header
	BySequence               // its sequence began there
	ByDefault                // no weights: the latest; or a request from inside: the primary version
	Reasons
)

// String returns the label value.
func (r Reason) String() string {
	return [...]string{"version", "label", "weight", "sticky", "sequence", "default"}[r]
}

// Stepped is a step back that has been made.
type Stepped struct {
	At      time.Time
	Version int64
	// Why says which bound was left.
	Why string
}

// Subject is what a plan has to know of a model that serves.
type Subject struct {
	Name string
	// Versions are those that are loaded, ascending.
	Versions []int64
	// Sequences reports whether a version keeps sequences itself.
	Sequences func(version int64) bool
	// Passes reports whether a version is an ensemble with a step that keeps sequences.
	Passes func(version int64) bool
	// Partial says that versions may be missing which the rules name: what is said of
	// them waits until they are there.
	Partial bool
}

type share struct {
	version int64
	weight  int64
}

// Plan is rules applied to the versions that are loaded. It is immutable.
type Plan struct {
	// Name is the model's.
	Name    string
	Rules   Rules
	Stepped *Stepped // nil while the rules hold as they are written
	// Era is another one when somebody has said weights or bounds anew, or to go on, since.
	Era uint64

	labels map[string]int64
	shares []share // with a weight above 0, by version
	total  int64
	// Primary is the version with the largest weight, or the latest one: it gets what
	// names no version and is not to be shared out.
	Primary int64
	// MirrorTo is the version that copies go to, 0 for none.
	MirrorTo int64
	// Watched is the version that may be stepped back from, Beside the one that it is
	// compared with; 0 for none.
	Watched, Beside int64
	// Sequences says that some version keeps sequences, Passed that some version does, or
	// is an ensemble with a step that does: those are mirrored as wholes.
	Sequences, Passed bool
}

// Make applies rules to a model. The error names each version that is not there.
func Make(rules Rules, stepped *Stepped, of Subject) (*Plan, error) {
	p := &Plan{Name: of.Name, Rules: rules, Stepped: stepped, labels: rules.Labels, Primary: of.Versions[len(of.Versions)-1]}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, name := range sorted(rules.Labels) {
		if v := rules.Labels[name]; !of.Partial && !slices.Contains(of.Versions, v) {
			fault("labels.%s: version %d is not loaded%s", name, v, loaded(of.Versions))
		}
	}
	find := func(field string, r Ref) int64 {
		v := r.Version
		if r.Label != "" {
			if v = rules.Labels[r.Label]; v == 0 {
				fault("%s: there is no label '%s'", field, r.Label)
				return 0
			}
		}
		if !slices.Contains(of.Versions, v) {
			if r.Label == "" && !of.Partial { // a label has been told of
				fault("%s: version %d is not loaded%s", field, v, loaded(of.Versions))
			}
			return 0
		}
		return v
	}
	for _, w := range rules.Weights {
		if v := find("weights."+w.To.String(), w.To); v != 0 && w.Weight > 0 {
			p.add(v, w.Weight)
		}
	}
	p.Sequences = slices.ContainsFunc(of.Versions, of.Sequences)
	p.Passed = p.Sequences || slices.ContainsFunc(of.Versions, of.Passes)
	for _, s := range p.shares {
		if len(p.shares) > 1 && of.Passes(s.version) {
			fault("weights: version %d is an ensemble of a model with sequences, which have to stay together: give the weights to that model",
				s.version)
		}
	}
	from := int64(0)
	if s := rules.StepBack; s != nil {
		if from = find("step_back.from", s.From); from != 0 && len(faults) == 0 {
			p.Watched, p.Beside = from, p.heaviest(from)
			switch {
			case p.Beside != 0:
			case of.Partial:
				p.Watched = 0
			default:
				fault("step_back.from: there is no other version with a weight to step back to")
			}
		}
	}
	if m := rules.Mirror; m != nil {
		p.MirrorTo = find("mirror.to", m.To)
	}
	if stepped != nil && from != 0 {
		p.shares = slices.DeleteFunc(p.shares, func(s share) bool { return s.version == from })
	}
	// That others are missing gives nothing to a version that was to have nothing.
	if of.Partial && len(rules.Weights) > 0 && len(p.shares) == 0 {
		fault("weights: no version that has one is loaded")
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	for _, s := range p.shares {
		p.total += s.weight
	}
	if v := p.heaviest(0); v != 0 {
		p.Primary = v
	}
	return p, nil
}

// add gives a version so much more weight.
func (p *Plan) add(version, weight int64) {
	at, there := slices.BinarySearchFunc(p.shares, version, func(s share, v int64) int { return int(s.version - v) })
	if !there {
		p.shares = slices.Insert(p.shares, at, share{version: version})
	}
	p.shares[at].weight += weight
}

// heaviest returns the version with the largest weight but one, the lower of two; 0
// for none.
func (p *Plan) heaviest(but int64) int64 {
	var best share
	for _, s := range p.shares {
		if s.version != but && s.weight > best.weight {
			best = s
		}
	}
	return best.version
}

// Label returns the version of a label.
func (p *Plan) Label(name string) (int64, bool) {
	v, ok := p.labels[name]
	return v, ok
}

// Labelled returns the labels of a version, sorted.
func (p *Plan) Labelled(version int64) []string {
	var all []string
	for _, name := range sorted(p.labels) {
		if p.labels[name] == version {
			all = append(all, name)
		}
	}
	return all
}

// Shares reports whether requests without a version are shared out.
func (p *Plan) Shares() bool { return p.total > 0 }

// Share returns the fraction of the requests without a version that a version gets.
func (p *Plan) Share(version int64) float64 {
	for _, s := range p.shares {
		if s.version == version {
			return float64(s.weight) / float64(p.total)
		}
	}
	return 0
}

// Choose returns the version of a request that names none. key is the value of the
// sticky header, random any number where there is none: key is empty then.
func (p *Plan) Choose(key string, random uint64) (int64, Reason) {
	switch {
	case p.total == 0:
		return p.Primary, ByDefault
	case key != "":
		return p.sticky(key), BySticky
	}
	n := int64(random % uint64(p.total)) // the sum is far below 2^64: the bias is nothing
	for _, s := range p.shares {
		if n -= s.weight; n < 0 {
			return s.version, ByWeight
		}
	}
	return p.Primary, ByWeight
}

// sticky chooses by weighted rendezvous: each version bids for the key, and the bid of
// one does not depend on the others. So a version whose weight grows takes keys of
// others and loses none, and all servers with the same rules choose alike.
func (p *Plan) sticky(key string) int64 {
	if len(key) > MaxKey {
		key = key[:MaxKey]
	}
	best, bid := p.Primary, -1.0
	for _, s := range p.shares {
		// Between 0 and 1, and neither.
		u := (float64(hash(key, s.version)>>11) + 0.5) / (1 << 53)
		if b := float64(s.weight) / -math.Log(u); b > bid {
			best, bid = s.version, b
		}
	}
	return best
}

// hash is FNV-1a of the key and the version, mixed so that all bits depend on all.
func hash(key string, version int64) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= uint64(version) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Mirrors reports whether a request that version answers is copied; random is any
// number.
func (p *Plan) Mirrors(version int64, random uint64) bool {
	return p.MirrorTo != 0 && p.MirrorTo != version && float64(random>>11)/(1<<53)*100 < p.Rules.Mirror.Percent
}

func sorted(labels map[string]int64) []string {
	names := make([]string, 0, len(labels))
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// loaded says which versions are, for errors.
func loaded(versions []int64) string {
	texts := make([]string, len(versions))
	for i, v := range versions {
		texts[i] = strconv.FormatInt(v, 10)
	}
	return ": the version policy loads " + strings.Join(texts, ", ")
}
