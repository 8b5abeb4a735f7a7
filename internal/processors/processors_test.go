package processors

import (
	"context"
	"runtime"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func TestRules(t *testing.T) {
	type step struct {
		used   float64
		want   int
		waited float64
	}
	steady := func(used float64, n, want int) (list []step) {
		for range n {
			list = append(list, step{used: used, want: want})
		}
		return list
	}
	for name, c := range map[string]struct {
		all   int
		steps [][]step
	}{
		"a moderate load needs half, after two windows": {2, [][]step{{{0.5, 2, 0}, {0.5, 1, 0}, {0.5, 1, 0}}}},
		"a burst between pauses does not count as calm": {2, [][]step{{{0.5, 2, 0}, {1.4, 2, 0}, {0.5, 2, 0}, {0.5, 1, 0}}}},
		"idle changes nothing": {
			2,
			[][]step{{{0, 2, 0}, {0.5, 2, 0}, {0, 2, 0}, {0.5, 1, 0}, {0, 1, 0}, {0.01, 1, 0}}},
		},
		"more than the lower number may have":                 {2, [][]step{steady(0.91, 4, 2)}},
		"what would be too much to go down is enough to stay": {2, [][]step{{{0.5, 2, 0}, {0.5, 1, 0}}, steady(0.94, 3, 1)}},
		"busy ones get all after two windows, and keep them a second": {2, [][]step{
			{{0.5, 2, 0}, {0.5, 1, 0}, {0.96, 1, 0}, {0.96, 2, 0}},
			steady(0.5, 20, 2),
			{{0.5, 1, 0}},
		}},
		"a burst of waiting is none": {2, [][]step{{{0.5, 2, 0}, {0.5, 1, 0}, {0.96, 1, 0}, {0.5, 1, 0}, {0.5, 1, 0.5}, {0.5, 1, 0}}}},
		"others take the cores":      {2, [][]step{{{0.5, 2, 0.4}, {0.5, 1, 0.4}, {0.5, 1, 0.4}, {0.5, 1, 0.5}, {0.5, 2, 0.5}}}},
		"an odd number":              {3, [][]step{{{0.7, 3, 0}, {0.7, 1, 0}}}},
		"many": {
			16, [][]step{{{7.1, 16, 0}, {7.1, 8, 0}, {7.5, 8, 0}, {7.7, 8, 0}, {7.7, 16, 0}}, steady(7.1, 20, 16), {{7.1, 8, 0}}},
		},
		"one has nothing to give up": {1, [][]step{{{0.1, 1, 0}, {0.1, 1, 0}, {1, 1, 0}, {1, 1, 0}}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, now, i := rules{}, c.all, 0
			for _, part := range c.steps {
				for _, s := range part {
					if now = r.next(measured{used: s.used, waited: s.waited}, now, c.all); now != s.want {
						t.Fatalf("window %d with %v in use: %d, want %d", i, s.used, now, s.want)
					}
					i++
				}
			}
		})
	}
}

func use(n int) {
	state.mu.Lock()
	defer state.mu.Unlock()
	useLocked(n)
}

// byDefault has the processors used that the runtime finds, whatever this run was
// given, and returns how many: Follow goes back to them.
func byDefault(t *testing.T) int {
	t.Helper()
	t.Setenv("GOMAXPROCS", "") // else Follow does nothing
	given := runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	t.Cleanup(func() {
		if given != all {
			runtime.GOMAXPROCS(given)
		}
	})
	return all
}

// Whoever asks how many there are hears of all, and whoever holds them gets them.
func TestHold(t *testing.T) {
	all := byDefault(t)
	if all < 2 {
		t.Skip("one processor: nothing to give up")
	}
	expect := func(what string, used int) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != used {
			t.Errorf("%s: %d processors in use, want %d", what, got, used)
		}
		if got := Count(); got != all {
			t.Errorf("%s: %d processors, want %d", what, got, all)
		}
	}
	use(1)
	expect("lowered", 1)
	one, two := Hold(), Hold()
	expect("held", all)
	use(1)
	expect("lowered while held", all)
	one()
	use(1)
	expect("lowered while one holds", all)
	two()
	use(1)
	expect("lowered again", 1)
	use(all)
	expect("raised", all)
}

// Follow ends with its context, used or not, and leaves all processors in use.
func TestFollowEnds(t *testing.T) {
	all := byDefault(t)
	for _, working := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Follow(ctx)
		}()
		if working {
			for range 1000 {
				Work()
			}
			use(max(1, all/2))
		}
		cancel()
		<-ended
		if got := runtime.GOMAXPROCS(0); got != all {
			t.Errorf("%d processors in use afterwards, want %d", got, all)
		}
	}
}

// The user's own number stays.
func TestGOMAXPROCSWins(t *testing.T) {
	t.Setenv("GOMAXPROCS", "2")
	Follow(t.Context()) // returns at once
}
