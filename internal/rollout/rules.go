// Package rollout decides which version of a model a request goes to, and why: labels,
// weights, stickiness, and the step back from a version that does not hold its bounds. It
// also compares what two versions answer. It knows no model and no clock; who asks it
// tells the time and the chance. Open rules.go first, then plan.go.
package rollout

import (
	"encoding/json"
	"strconv"
	"time"
)

// File is the name of the file in a model's directory that has its rules.
const File = "rollout.yaml"

// MaxText bounds the text of rules, in a file and in a request.
const MaxText = 64 << 10

const (
	maxLabels  = 64
	maxWeights = 64
	maxWeight  = 1_000_000
	// MaxKey bounds the value of the sticky header that is looked at.
	MaxKey = 4096
)

// Rules are what an operator says of the versions of one model. The zero value says
// nothing.
type Rules struct {
	// Labels are names of versions.
	Labels map[string]int64
	// Weights share out the requests that name no version; none leaves them to the
	// latest version.
	Weights []Weight
	// Sticky is the header, or metadata key, whose value decides which version a request
	// goes to; empty leaves that to chance.
	Sticky   string
	Mirror   *Mirror
	StepBack *StepBack
}

// Ref names a version by its number, or by its label where there is one.
type Ref struct {
	Label   string
	Version int64
}

func (r Ref) String() string {
	if r.Label != "" {
		return r.Label
	}
	return strconv.FormatInt(r.Version, 10)
}

// Weight is the share of a version, in parts of the sum of all weights.
type Weight struct {
	To     Ref
	Weight int64
}

// Mirror sends a copy of some requests to a version that does not answer them.
type Mirror struct {
	To      Ref
	Percent float64
	// Tolerance is by how much numbers of the two answers may differ.
	Tolerance Tolerance
	// Concurrency is how many copies run at the same time, Queue how many more wait.
	Concurrency, Queue int
	// Timeout bounds one copy.
	Timeout time.Duration
}

// Tolerance is by how much a number may differ: by Absolute, and by Relative times the
// answer that the client got.
type Tolerance struct{ Absolute, Relative float64 }

// StepBack are the bounds that a version has to hold to keep its weight.
type StepBack struct {
	From Ref
	// Window is over how long is looked back, MinRequests how many requests of the version
	// there have to be in it before anything is said.
	Window      time.Duration
	MinRequests int64
	// MaxErrorRate is the share of its requests that may fail; negative for no bound.
	MaxErrorRate float64
	// MaxLatency bounds the latency at Quantile, and MaxLatencyRatio the same in times
	// that of the version with the largest weight beside it; 0 for no bound.
	MaxLatency      time.Duration
	Quantile        float64
	MaxLatencyRatio float64
}

// What a section has that leaves it out.
const (
	defaultConcurrency = 1
	defaultQueue       = 64
	defaultTimeout     = 30 * time.Second
	defaultWindow      = time.Minute
	defaultMinRequests = 100
	defaultQuantile    = 0.99
)

// Empty reports whether the rules say nothing.
func (r *Rules) Empty() bool {
	return len(r.Labels) == 0 && len(r.Weights) == 0 && r.Sticky == "" && r.Mirror == nil && r.StepBack == nil
}

// Watched returns the version that may be stepped back from, 0 for none.
func (r *Rules) Watched() int64 {
	if r.StepBack == nil {
		return 0
	}
	if from := r.StepBack.From; from.Label == "" {
		return from.Version
	}
	return r.Labels[r.StepBack.From.Label]
}

// IsLabel reports whether s can be a label: 1 to 64 letters, digits, '.', '_' and '-',
// of which the first is a letter. So no number is one.
func IsLabel(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// MarshalJSON writes the rules as Parse reads them, defaults included.
func (r *Rules) MarshalJSON() ([]byte, error) {
	doc := document{Labels: r.Labels, Sticky: r.Sticky}
	if len(r.Weights) > 0 {
		doc.Weights = map[string]int64{}
		for _, w := range r.Weights {
			doc.Weights[w.To.String()] = w.Weight
		}
	}
	if m := r.Mirror; m != nil {
		doc.Mirror = &mirrorDocument{
			To: m.To.String(), Percent: m.Percent, Tolerance: toleranceDocument(m.Tolerance),
			Concurrency: m.Concurrency, Queue: m.Queue, Timeout: m.Timeout.String(),
		}
	}
	if s := r.StepBack; s != nil {
		doc.StepBack = &stepDocument{
			From: s.From.String(), Window: s.Window.String(), MinRequests: s.MinRequests, Quantile: s.Quantile,
			MaxLatencyRatio: s.MaxLatencyRatio,
		}
		if s.MaxErrorRate >= 0 {
			doc.StepBack.MaxErrorRate = &s.MaxErrorRate
		}
		if s.MaxLatency > 0 {
			doc.StepBack.MaxLatency = s.MaxLatency.String()
		}
	}
	return json.Marshal(&doc)
}

type document struct {
	Labels   map[string]int64 `json:"labels,omitempty"`
	Weights  map[string]int64 `json:"weights,omitempty"`
	Sticky   string           `json:"sticky,omitempty"`
	Mirror   *mirrorDocument  `json:"mirror,omitempty"`
	StepBack *stepDocument    `json:"step_back,omitempty"`
}

type mirrorDocument struct {
	To          string            `json:"to"`
	Percent     float64           `json:"percent"`
	Tolerance   toleranceDocument `json:"tolerance"`
	Concurrency int               `json:"concurrency"`
	Queue       int               `json:"queue"`
	Timeout     string            `json:"timeout"`
}

type toleranceDocument struct {
	Absolute float64 `json:"absolute"`
	Relative float64 `json:"relative"`
}

type stepDocument struct {
	From            string   `json:"from"`
	Window          string   `json:"window"`
	MinRequests     int64    `json:"min_requests"`
	MaxErrorRate    *float64 `json:"max_error_rate,omitempty"`
	MaxLatency      string   `json:"max_latency,omitempty"`
	Quantile        float64  `json:"quantile"`
	MaxLatencyRatio float64  `json:"max_latency_ratio,omitempty"`
}
