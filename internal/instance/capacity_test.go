package instance

import (
	"runtime"
	"testing"

	"github.com/nesoserve/neso/backend"
)

// What lies ahead of an instance is as much as its model justifies: a busy
// machine, which holds up some of its executions, is not the model's doing.
func TestPlacesAhead(t *testing.T) {
	const us = 1000
	for _, c := range []struct {
		name   string
		series []int64 // µs, over and over
		least  int32
		most   int32
	}{
		{"a library's", []int64{1}, 62, 62},
		{"10 µs", []int64{10}, 50, 50},
		{"quick", []int64{20}, 25, 25},
		{"quick, held up in every third", []int64{20, 4000, 20}, 15, 25},
		{"quick, answers together", []int64{400, 1, 1, 1}, 15, 62},
		{"0.2 ms", []int64{200}, 2, 2},
		{"0.2 ms, one in ten held up", []int64{200, 200, 200, 200, 200, 200, 200, 200, 200, 8000}, 1, 2},
		{"0.4 ms", []int64{400}, 1, 1},
		{"0.6 ms", []int64{600}, 0, 0},
		{"slow in two of three", []int64{20, 3000, 3000}, 0, 0},
	} {
		s := &slot{}
		s.ahead.Store(63)
		p := &capacity{}
		for i := range 300 {
			s.executed(c.series[i%len(c.series)] * us)
		}
		if got := p.aheadOf(s); got < c.least || got > c.most {
			t.Errorf("%s: %d ahead, want %d to %d", c.name, got, c.least, c.most)
		}
	}
}

// An instance that has held something up is quick again after some ten quick
// executions, and one that becomes slow gets nothing soon.
func TestPlacesAheadChanges(t *testing.T) {
	s, p := &slot{}, &capacity{}
	s.ahead.Store(63)
	for _, c := range []struct {
		name        string
		begin, each int64
		ahead       bool
	}{
		{"held up, then quick", heldUp, 20e3, true},
		{"quick, then slow", shortest, 3e6, false},
	} {
		s.took.Store(c.begin)
		n := 0
		for ; n < 100 && (p.aheadOf(s) > 0) != c.ahead; n++ {
			s.executed(c.each)
		}
		if n < 8 || n > 40 {
			t.Errorf("%s: after %d executions", c.name, n)
		}
	}
}

// An instance that fails gets something only where all do.
func TestFailingInstancesAreTheLast(t *testing.T) {
	p := &capacity{}
	p.init(2, 1)
	slots := []*slot{{}, {}}
	for _, s := range slots {
		p.add(s)
	}
	fail := func(i int, fails bool) { p.reports(slots[i]).take(backend.InstanceState{Failing: fails}) }
	line := func() <-chan int {
		got := make(chan int, 1)
		go func() {
			i, _ := p.Acquire(t.Context(), nil, 1)
			got <- i
		}()
		for p.waiting.Load() == 0 && len(got) == 0 {
			runtime.Gosched()
		}
		return got
	}
	fail(0, true)
	if i, ok := p.TryAcquire(); !ok || i != 1 {
		t.Fatalf("got %d, %v, want the one that does not fail", i, ok)
	}
	if i, ok := p.TryAcquire(); ok {
		t.Fatalf("got %d while the other one is only busy", i)
	}
	waits := line()
	fail(1, true)
	if i := <-waits; i != 0 {
		t.Fatalf("got %d once all fail", i)
	}
	fail(1, false)
	waits = line()
	p.Release(0)
	p.Release(1)
	if i := <-waits; i != 1 {
		t.Fatalf("got %d, which fails", i)
	}
}
