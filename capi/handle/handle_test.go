package handle_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nesoserve/neso/capi/handle"
)

func TestStaleHandles(t *testing.T) {
	words, numbers := handle.NewTable[string](1), handle.NewTable[int](2)
	a, b, n := "a", "b", 7
	ha, hn := words.New(&a), numbers.New(&n)
	if ha == 0 || words.Get(ha) != &a {
		t.Fatalf("Get(%x) = %v, want the object", ha, words.Get(ha))
	}
	for name, h := range map[string]handle.Handle{"null": 0, "another kind": hn, "made up": 0xdeadbeef, "another place": ha + 1} {
		if got := words.Get(h); got != nil {
			t.Errorf("%s: Get = %q, want nil", name, *got)
		}
		if got := words.Take(h); got != nil {
			t.Errorf("%s: Take = %q, want nil", name, *got)
		}
	}
	if words.Take(ha) != &a || words.Take(ha) != nil || words.Get(ha) != nil {
		t.Error("a handle that was taken still has its object")
	}
	hb := words.New(&b) // in the same place
	if hb == ha || words.Get(ha) != nil || words.Get(hb) != &b || words.Live() != 1 {
		t.Errorf("after the place was used again: %x for %x", hb, ha)
	}
}

// TestOneTakes has many ask for, and end, the same handles.
func TestOneTakes(t *testing.T) {
	table := handle.NewTable[int](1)
	for range 200 {
		v, taken := 1, atomic.Int32{}
		h := table.New(&v)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if got := table.Get(h); got != nil && got != &v {
					t.Error("Get has another object")
				}
				if table.Take(h) != nil {
					taken.Add(1)
				}
				other := 2
				table.Take(table.New(&other))
			})
		}
		wg.Wait()
		if taken.Load() != 1 {
			t.Fatalf("%d have taken the object, want 1", taken.Load())
		}
	}
	if table.Live() != 0 {
		t.Errorf("%d objects live, want 0", table.Live())
	}
}

func TestManyHandles(t *testing.T) {
	table := handle.NewTable[int](3)
	handles := make([]handle.Handle, 5000) // more than a chunk
	values := make([]int, len(handles))
	for i := range handles {
		handles[i] = table.New(&values[i])
	}
	for i, h := range handles {
		if table.Get(h) != &values[i] {
			t.Fatalf("handle %d has another object", i)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	table, v := handle.NewTable[int](1), 1
	h := table.New(&v)
	for b.Loop() {
		table.Get(h)
	}
}
