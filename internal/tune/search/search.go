// Package search owns which configurations are measured: every one of them, those
// along one knob after the other, or ever fewer for ever longer. It knows no clock
// and no server: the same scores give the same course, so a search whose scores were
// kept goes on where it ended. Open search.go first.
package search

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// Score is what a measurement says of a configuration.
type Score struct {
	OK     bool    // it was measured
	Excess float64 // by how much it misses limits, 0 for not at all
	Value  float64 // higher is better
	Noise  float64 // the standard error of Value
}

// Better reports whether a is to be preferred to b, by whatever little.
func (a Score) Better(b Score) bool { return a.compare(b) > 0 }

func (a Score) compare(b Score) int {
	switch {
	case a.OK != b.OK:
		return truth(a.OK) - truth(b.OK)
	case !a.OK:
		return 0
	case a.Excess != b.Excess:
		return cmp.Compare(b.Excess, a.Excess)
	}
	return cmp.Compare(a.Value, b.Value)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sure is how many standard errors a difference must have.
const sure = 2

// Clearly reports whether a is better than b by more than their noise.
func (a Score) Clearly(b Score) bool {
	if !a.Better(b) {
		return false
	}
	if !b.OK || (a.Excess == 0) != (b.Excess == 0) {
		return true
	}
	return math.Max(b.Excess-a.Excess, a.Value-b.Value) > sure*math.Hypot(a.Noise, b.Noise)
}

// Problem is a space of configurations, and how one is measured.
type Problem struct {
	// Sizes is how many values each knob has, Start the configuration as it is.
	Sizes []int
	Start []int
	// Measure measures a configuration, effort times as long as the shortest
	// measurement. An error ends the search. A slice is Measure's to keep.
	Measure func(ctx context.Context, point []int, effort int) (Score, error)
	// Plan is told how much effort is still to come at most.
	Plan func(effort int)
}

func (p *Problem) plan(effort int) {
	if p.Plan != nil {
		p.Plan(effort)
	}
}

// Count is how many configurations there are; math.MaxInt for more than that.
func (p *Problem) Count() int {
	n := 1
	for _, s := range p.Sizes {
		if n > math.MaxInt/max(s, 1) {
			return math.MaxInt
		}
		n *= s
	}
	return n
}

// at returns the i-th configuration; the last knob changes quickest.
func (p *Problem) at(i int) []int {
	point := make([]int, len(p.Sizes))
	for d := len(p.Sizes) - 1; d >= 0; d-- {
		point[d] = i % p.Sizes[d]
		i /= p.Sizes[d]
	}
	return point
}

// Brute measures every configuration, first the one as it is.
func Brute(ctx context.Context, p Problem) error {
	n := p.Count()
	p.plan(n)
	if _, err := p.Measure(ctx, slices.Clone(p.Start), 1); err != nil {
		return err
	}
	left := n - 1
	for i := range n {
		point := p.at(i)
		if slices.Equal(point, p.Start) {
			continue
		}
		p.plan(left)
		if _, err := p.Measure(ctx, point, 1); err != nil {
			return err
		}
		left--
	}
	p.plan(0)
	return nil
}

// Quick goes from the configuration as it is along one knob after the other, as long
// as that is clearly better, until no knob helps.
func Quick(ctx context.Context, p Problem) error {
	at := slices.Clone(p.Start)
	p.plan(1 + 2*len(p.Sizes))
	best, err := p.Measure(ctx, slices.Clone(at), 1)
	if err != nil {
		return err
	}
	for quiet := 0; quiet < len(p.Sizes); {
		for d := range p.Sizes {
			moved := false
			for _, step := range []int{1, -1} {
				for next := at[d] + step; next >= 0 && next < p.Sizes[d]; next += step {
					p.plan(2 * (len(p.Sizes) - quiet))
					point := slices.Clone(at)
					point[d] = next
					score, err := p.Measure(ctx, point, 1)
					if err != nil {
						return err
					}
					if !score.Clearly(best) {
						break
					}
					at[d], best, moved = next, score, true
				}
				if moved {
					break // the other side has been left behind
				}
			}
			if quiet++; moved {
				quiet = 1
			}
			if quiet >= len(p.Sizes) {
				break
			}
		}
	}
	p.plan(0)
	return nil
}

// Halving is how successive halving goes.
type Halving struct {
	Most int    // configurations in the first round
	Keep int    // one of so many goes on, and is measured so many times as long
	Seed uint64 // of the choice where there are more configurations than Most
}

// Run measures many configurations shortly, the best of them longer, and so on
// until one is left.
func (h Halving) Run(ctx context.Context, p Problem) error {
	points := h.choose(&p)
	total := 0
	for n, effort := len(points), 1; ; n, effort = (n+h.Keep-1)/h.Keep, effort*h.Keep {
		if total += n * effort; n == 1 {
			break
		}
	}
	type scored struct {
		point []int
		score Score
	}
	for effort := 1; ; effort *= h.Keep {
		var all []scored
		for _, point := range points {
			p.plan(total)
			score, err := p.Measure(ctx, slices.Clone(point), effort)
			if err != nil {
				return err
			}
			total -= effort
			all = append(all, scored{point, score})
		}
		if len(points) == 1 {
			p.plan(0)
			return nil
		}
		slices.SortStableFunc(all, func(a, b scored) int { return b.score.compare(a.score) })
		points = points[:0]
		for _, s := range all[:(len(all)+h.Keep-1)/h.Keep] {
			if s.score.OK {
				points = append(points, s.point)
			}
		}
		if len(points) == 0 {
			p.plan(0)
			return nil
		}
	}
}

// choose returns the configurations of the first round, the one as it is before all.
func (h Halving) choose(p *Problem) [][]int {
	points := [][]int{slices.Clone(p.Start)}
	n := p.Count()
	if n <= h.Most {
		for i := range n {
			if point := p.at(i); !slices.Equal(point, p.Start) {
				points = append(points, point)
			}
		}
		return points
	}
	random := rand.New(rand.NewPCG(h.Seed, 0))
	for len(points) < max(h.Most, 1) {
		point := p.at(random.IntN(n))
		if !slices.ContainsFunc(points, func(q []int) bool { return slices.Equal(q, point) }) {
			points = append(points, point)
		}
	}
	return points
}
