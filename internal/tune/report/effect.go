package report

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/internal/tune/trial"
)

// Effect is what a value of a knob did, all other knobs standing as they stood.
type Effect struct {
	Knob, Value string
	AsItIs      bool
	Measured    int // configurations with this value
	Failed      int // of them, and those beyond the limits
	// Gain is the mean change of the goal against the value as it is, over Pairs of
	// configurations that differ in this knob alone, each at its best load.
	Gain  trial.Stat
	Pairs int
}

// Effects lists what each knob did, value by value.
func (o *Outcome) Effects() []Effect {
	start := map[string]string{}
	values := map[string][]string{}
	for i := range o.Ranked {
		r := &o.Ranked[i]
		for k, v := range r.Values {
			if r.Key == "" {
				start[k] = v
			}
			if !slices.Contains(values[k], v) {
				values[k] = append(values[k], v)
			}
		}
	}
	var all []Effect
	for _, knob := range slices.Sorted(maps.Keys(values)) {
		slices.SortFunc(values[knob], byNumber)
		for _, v := range values[knob] {
			all = append(all, o.effect(knob, v, start[knob]))
		}
	}
	return all
}

func (o *Outcome) effect(knob, value, start string) Effect {
	e := Effect{Knob: knob, Value: value, AsItIs: value == start}
	var gains []float64
	for i := range o.Ranked {
		r := &o.Ranked[i]
		if r.Values[knob] != value {
			continue
		}
		e.Measured++
		if r.Best == nil || r.Score.Excess > 0 {
			e.Failed++
			continue
		}
		other := maps.Clone(r.Values)
		other[knob] = start
		for k := range o.Ranked {
			if p := &o.Ranked[k]; p.Best != nil && k != i && maps.Equal(p.Values, other) {
				gains = append(gains, r.Score.Value-p.Score.Value)
			}
		}
	}
	e.Gain, e.Pairs = trial.StatOf(gains), len(gains)
	e.Gain.Mean = math.Expm1(e.Gain.Mean)
	return e
}

// byNumber sorts numbers as such, behind what is none.
func byNumber(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case errX == nil && errY == nil && x < y, errX != nil && errY == nil, errX != nil && a < b:
		return -1
	case a == b:
		return 0
	}
	return 1
}
