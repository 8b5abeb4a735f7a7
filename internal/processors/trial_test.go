package processors

import (
	"slices"
	"testing"
)

// load says what a window shows with so many processors.
type load func(n int) measured

// play returns with how many processors of two each window ended.
func play(r *rules, now, windows int, l load) (seen []int) {
	for range windows {
		now = r.next(l(now), now, 2)
		seen = append(seen, now)
	}
	return seen
}

// TestTrial: where half of the processors are nearly enough, what serves more stays.
func TestTrial(t *testing.T) {
	// One processor is full with 3,500 requests a window; two serve fewer, or more.
	saturated := func(two float64) load {
		return func(n int) measured {
			if n == 1 {
				return measured{used: 0.97, served: 3500}
			}
			return measured{used: 1.15, served: two}
		}
	}
	count := func(seen []int, n int) (k int) {
		for _, x := range seen {
			if x == n {
				k++
			}
		}
		return k
	}
	for _, c := range []struct {
		name       string
		begins     int
		two        float64
		want       int // in most windows
		most, last int // windows of the other number, and in the last hundred
	}{
		{"two serve fewer, from one", 1, 2800, 1, 45, 4},
		{"two serve fewer, from two", 2, 2800, 1, 45, 4},
		{"two serve the same", 1, 3550, 1, 45, 4},
		{"two serve more, from one", 1, 5000, 2, 20, 1},
		{"two serve more, from two", 2, 5000, 2, 20, 1},
	} {
		seen := play(&rules{}, c.begins, 1000, saturated(c.two))
		if n := count(seen, c.want); n < 1000-c.most {
			t.Errorf("%s: %d of 1000 windows with %d", c.name, n, c.want)
		}
		if n := count(seen[900:], c.want); n < 100-c.last {
			t.Errorf("%s: %d of the last 100 windows with %d: trials do not become rare", c.name, n, c.want)
		}
	}
}

// TestTrialOfAnotherLoad: what was found holds for the load that it was found with.
func TestTrialOfAnotherLoad(t *testing.T) {
	r := &rules{}
	few := func(n int) measured { return measured{used: 0.97, served: map[int]float64{1: 3500, 2: 2800}[n]} }
	seen := play(r, 1, 100, few)
	if seen[99] != 1 {
		t.Fatalf("windows ended with %v", seen)
	}
	// Larger requests, which two processors serve twice as many of.
	seen = play(r, 1, 10, func(n int) measured { return measured{used: 0.98 * float64(n), served: 400 * float64(n)} })
	if !slices.Equal(seen, []int{1, 2, 2, 2, 2, 2, 2, 2, 2, 2}) {
		t.Errorf("windows ended with %v", seen)
	}
}

// TestTrialEndsAtOnce where half of the processors are far from enough, or the load ends.
func TestTrialEndsAtOnce(t *testing.T) {
	r := &rules{}
	seen := play(r, 2, 4, func(n int) measured { return measured{used: 1.1, served: map[int]float64{1: 2000, 2: 3000}[n]} })
	if !slices.Equal(seen, []int{2, 1, 2, 2}) {
		t.Errorf("windows ended with %v", seen)
	}
	r = &rules{}
	play(r, 2, 2, func(int) measured { return measured{used: 1.1, served: 3000} })
	if n := r.next(measured{}, 1, 2); n != 1 || r.trial.left != 0 {
		t.Errorf("%d processors, %d windows of the trial are left where nothing is served", n, r.trial.left)
	}
}

// TestNoTrialOfFew: a handful of requests in a window tells nothing.
func TestNoTrialOfFew(t *testing.T) {
	seen := play(&rules{}, 1, 30, func(int) measured { return measured{used: 0.99, served: fewest - 1} })
	if !slices.Equal(seen[:2], []int{1, 2}) || slices.Contains(seen[1:21], 1) {
		t.Errorf("windows ended with %v", seen)
	}
	if seen = play(&rules{}, 2, 30, func(int) measured { return measured{used: 1.1, served: fewest - 1} }); slices.Contains(seen, 1) {
		t.Errorf("windows ended with %v", seen)
	}
}
