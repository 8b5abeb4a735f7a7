package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// machine is a synthetic server: its throughput grows with instances up to its cores,
// and with batches up to a limit; each batch size costs memory.
func machine(point []int) Score {
	instances, batch, delay := []float64{1, 2, 4, 8}[point[0]], []float64{1, 2, 4, 8, 16}[point[1]], []float64{0, 100, 1000}[point[2]]
	if instances*batch > 64 {
		return Score{} // it does not fit
	}
	rate := min(instances, 4) * batch / (1 + 0.05*batch) / (1 + delay/5000) / (1 + 0.1*max(0, instances-4))
	return Score{OK: true, Value: math.Log(rate), Noise: 0.01}
}

var searches = map[string]func(context.Context, Problem) error{
	"brute": Brute, "quick": Quick, "halving": Halving{Most: 8, Keep: 2}.Run,
}

// recorded is a problem that notes what is measured.
func recorded(sizes, start []int, f func([]int) Score) (Problem, *[]string) {
	var log []string
	return Problem{
		Sizes: sizes, Start: start,
		Measure: func(_ context.Context, p []int, effort int) (Score, error) {
			log = append(log, fmt.Sprint(p, effort))
			return f(p), nil
		},
	}, &log
}

func best(log []string) string {
	last := ""
	var top Score
	for _, l := range log {
		var a, b, c, e int
		fmt.Sscanf(l, "[%d %d %d] %d", &a, &b, &c, &e)
		if s := machine([]int{a, b, c}); s.Better(top) {
			last, top = fmt.Sprint([]int{a, b, c}), s
		}
	}
	return last
}

func TestSearchesFindTheBest(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(context.Context, Problem) error
		most int // measurements
	}{
		{"brute", Brute, 60},
		{"quick", Quick, 25},
		{"halving", Halving{Most: 100, Keep: 3}.Run, 60 + 20 + 7 + 3 + 1},
	} {
		for _, start := range [][]int{{0, 0, 0}, {3, 0, 2}, {2, 4, 0}} {
			p, log := recorded([]int{4, 5, 3}, start, machine)
			if err := c.run(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if got := best(*log); got != "[2 4 0]" || len(*log) > c.most {
				t.Errorf("%s from %v: found %s in %d measurements", c.name, start, got, len(*log))
			}
			if (*log)[0] != fmt.Sprint(start, 1) {
				t.Errorf("%s begins with %s", c.name, (*log)[0])
			}
		}
	}
}

func TestBruteMeasuresEachOnce(t *testing.T) {
	p, log := recorded([]int{2, 3}, []int{1, 1}, func([]int) Score { return Score{} })
	if err := Brute(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(*log); got != "[[1 1] 1 [0 0] 1 [0 1] 1 [0 2] 1 [1 0] 1 [1 2] 1]" {
		t.Error(got)
	}
}

func TestQuickStaysWithinTheNoise(t *testing.T) {
	p, log := recorded([]int{3, 3}, []int{1, 1}, func(p []int) Score {
		return Score{OK: true, Value: 0.01 * float64(p[0]+p[1]), Noise: 0.02}
	})
	if err := Quick(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(*log); got != "[[1 1] 1 [2 1] 1 [0 1] 1 [1 2] 1 [1 0] 1]" {
		t.Error(got)
	}
}

func TestHalvingMeasuresTheLastLongest(t *testing.T) {
	p, log := recorded([]int{1000, 1000, 1000, 1000, 1000, 1000, 1000}, make([]int, 7), func(p []int) Score {
		return Score{OK: true, Value: float64(p[0])}
	})
	if err := (Halving{Most: 9, Keep: 3, Seed: 5}).Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if len(*log) != 9+3+1 || (*log)[12][len((*log)[12])-1] != '9' {
		t.Errorf("%d measurements: %v", len(*log), *log)
	}
	again, second := recorded(p.Sizes, p.Start, func(p []int) Score { return Score{OK: true, Value: float64(p[0])} })
	if err := (Halving{Most: 9, Keep: 3, Seed: 5}).Run(t.Context(), again); err != nil || !slices.Equal(*log, *second) {
		t.Errorf("another course with the same scores: %v", *second)
	}
}

func TestAllFail(t *testing.T) {
	for name, run := range searches {
		p, log := recorded([]int{2, 2}, []int{0, 0}, func([]int) Score { return Score{} })
		if err := run(t.Context(), p); err != nil || len(*log) > 5 {
			t.Errorf("%s: %v, %v", name, err, *log)
		}
	}
}

func TestNoKnobs(t *testing.T) {
	for name, run := range searches {
		p, log := recorded(nil, nil, func([]int) Score { return Score{OK: true} })
		if err := run(t.Context(), p); err != nil || len(*log) != 1 {
			t.Errorf("%s: %v, %v", name, err, *log)
		}
	}
}

func TestAnErrorEndsIt(t *testing.T) {
	stop := errors.New("stop")
	for name, run := range searches {
		n := 0
		p := Problem{Sizes: []int{2, 2}, Start: []int{0, 0}, Measure: func(context.Context, []int, int) (Score, error) {
			if n++; n == 2 {
				return Score{}, stop
			}
			return Score{OK: true}, nil
		}}
		if err := run(t.Context(), p); !errors.Is(err, stop) || n != 2 {
			t.Errorf("%s: %v after %d", name, err, n)
		}
	}
}

func TestScores(t *testing.T) {
	failed, late := Score{}, Score{OK: true, Excess: 0.5, Value: 9}
	slow, quick := Score{OK: true, Value: 1, Noise: 0.1}, Score{OK: true, Value: 1.2, Noise: 0.1}
	for _, c := range []struct {
		name            string
		a, b            Score
		better, clearly bool
	}{
		{"whatever is measured", late, failed, true, true},
		{"a failure", failed, late, false, false},
		{"two failures", failed, failed, false, false},
		{"within limits", slow, late, true, true},
		{"by less than the noise", quick, slow, true, false},
		{"by more", Score{OK: true, Value: 1.4, Noise: 0.1}, slow, true, true},
		{"itself", slow, slow, false, false},
	} {
		if got := c.a.Better(c.b); got != c.better {
			t.Errorf("%s: better %v", c.name, got)
		}
		if got := c.a.Clearly(c.b); got != c.clearly {
			t.Errorf("%s: clearly %v", c.name, got)
		}
	}
}
