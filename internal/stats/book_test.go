package stats

import (
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/infer"
)

func count(t *testing.T, v *Version, n int) {
	t.Helper()
	for range n {
		v.Finish(ended(t, nil, infer.NoFailure))
		v.Batch(3, 1, 1, 1)
	}
}

func TestABookCountsOn(t *testing.T) {
	b := NewBook(nil)
	m := Title{Name: "m", Version: 1, Tags: map[string]string{"team": "a"}}
	read := func(pages int) Page {
		t.Helper()
		all := b.Read()
		if len(all) != pages {
			t.Fatalf("%d pages, want %d", len(all), pages)
		}
		return all[0]
	}
	first, second := NewVersion(nil), NewVersion(nil)
	hangs := int64(2)
	b.Open(m, Loaded{Numbers: first, Health: func() (int, int64) { return 1, hangs }})
	count(t, first, 3)
	b.Open(m, Loaded{Numbers: second, Cached: true})
	count(t, first, 1) // it drains
	count(t, second, 1)
	if p := read(1); p.Numbers.Success.Count != 5 || p.Hangs != 2 || p.Stuck != 1 || !p.Cached {
		t.Errorf("two at once: %+v", p)
	}
	first.Enqueued()
	b.Close(m, first)
	b.Close(m, first)
	hangs = 9
	p := read(1)
	if p.Numbers.Success.Count != 5 || p.Numbers.ExecutionCount != 5 || p.Numbers.RequestTime.Count() != 5 || p.Numbers.Pending != 0 ||
		p.Hangs != 2 || p.Stuck != 0 {
		t.Errorf("the first one is closed: %+v", p)
	}
	b.Close(m, second)
	third := NewVersion(nil)
	if p := read(1); p.Numbers.Success.Count != 5 {
		t.Errorf("nothing is loaded: %+v", p)
	}
	b.Open(m, Loaded{Numbers: third})
	count(t, third, 1)
	if p := read(1); p.Numbers.Success.Count != 6 || p.Numbers.Queue != (Duration{6, 3000}) || len(p.Numbers.Batches) != 0 {
		t.Errorf("loaded again: %+v", p)
	}
	other := m
	other.Tags = map[string]string{"team": "b"}
	b.Open(other, Loaded{Numbers: NewVersion(nil)})
	if p := read(2); p.Numbers.Success.Count != 6 {
		t.Errorf("other tags: %+v", p)
	}
}

// TestWorkerCPUNeverFalls: what workers have used counts on over loads, and what is
// told does not fall when a version is closed while it is being asked.
func TestWorkerCPUNeverFalls(t *testing.T) {
	b := NewBook(nil)
	m := Title{Name: "m", Version: 1}
	read := func(want time.Duration, workers bool) {
		t.Helper()
		if p := b.Read()[0]; p.WorkerCPU != want || p.Workers != workers {
			t.Errorf("%v %t, want %v %t", p.WorkerCPU, p.Workers, want, workers)
		}
	}
	none, first, second := NewVersion(nil), NewVersion(nil), NewVersion(nil)
	b.Open(m, Loaded{Numbers: none})
	read(0, false)
	used := time.Duration(5)
	b.Open(m, Loaded{Numbers: first, WorkerCPU: func() (time.Duration, bool) { return used, true }})
	read(5, true)
	used = 7
	b.Close(m, first)
	read(7, true)
	asked := false
	b.Open(m, Loaded{Numbers: second, WorkerCPU: func() (time.Duration, bool) {
		if asked {
			return 1, true
		}
		asked = true
		b.Close(m, second) // which asks before the first to ask has its answer
		return 2, true
	}})
	b.Close(m, none)
	read(9, true)
	read(9, true)
}

func TestABookIsBounded(t *testing.T) {
	b := NewBook(nil)
	v := NewVersion(nil)
	kept := Title{Name: "kept", Version: 1}
	b.Open(kept, Loaded{Numbers: NewVersion(nil)})
	for i := range int64(maxClosed + 5) {
		m := Title{Name: "m", Version: i + 1}
		b.Open(m, Loaded{Numbers: v})
		b.Close(m, v)
	}
	all := b.Read()
	if len(all) != maxClosed+1 || all[0].Name != "kept" || all[1].Version != 6 {
		t.Errorf("%d pages, first %v, %v; want %d, kept, and m from version 6 on", len(all), all[0].Title, all[1].Title, maxClosed+1)
	}
}

func TestAnObserverSeesAllOfATitle(t *testing.T) {
	made := 0
	b := NewBook(func() Observer { made++; return nil })
	m := Title{Name: "m", Version: 1}
	b.Observer(m)
	if all := b.Read(); len(all) != 1 || !all[0].Failed {
		t.Errorf("a version whose load has failed: %+v", all)
	}
	b.Open(m, Loaded{Numbers: NewVersion(nil)})
	if all := b.Read(); len(all) != 1 || all[0].Failed {
		t.Errorf("a version that is loaded: %+v", all)
	}
	b.Observer(m)
	if made != 1 {
		t.Errorf("%d observers, want 1", made)
	}
}
