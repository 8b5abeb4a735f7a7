package responsecache

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/memory"
)

func TestLocalSuite(t *testing.T) {
	suite(t, func(*testing.T, *memory.Pool) Store { return newLocal(1 << 20) })
}

// twin is the obvious store: a list, the one used last in front.
type twin struct {
	limit int64
	list  []twinEntry
}

type twinEntry struct {
	n    int
	size int64
}

func (w *twin) lookup(n int) bool {
	for i, e := range w.list {
		if e.n == n {
			w.list = append([]twinEntry{e}, append(w.list[:i:i], w.list[i+1:]...)...)
			return true
		}
	}
	return false
}

func (w *twin) insert(n int, size int64) Outcome {
	if size > w.limit {
		return Refused
	}
	for _, e := range w.list {
		if e.n == n {
			return Present
		}
	}
	for w.used()+size > w.limit {
		w.list = w.list[:len(w.list)-1]
	}
	w.list = append([]twinEntry{{n, size}}, w.list...)
	return Stored
}

func (w *twin) used() (n int64) {
	for _, e := range w.list {
		n += e.size
	}
	return n
}

func TestLocalDropsWhatWasNotUsedForLongest(t *testing.T) {
	p := pool(t)
	rng := rand.New(rand.NewPCG(1, 2))
	l, w := newLocal(20_000), &twin{limit: 20_000}
	defer l.Close()
	for range 5000 {
		n := rng.IntN(30)
		size := n * n * 30
		if rng.IntN(2) == 0 {
			e := l.Lookup(t.Context(), key(n))
			if want := w.lookup(n); (e != nil) != want {
				t.Fatalf("look-up of %d: %v, want %v", n, e != nil, want)
			}
			if e != nil {
				is(t, e, n, size)
			}
			continue
		}
		e := entry(t, p, n, size)
		want := w.insert(n, e.size())
		got, err := l.Insert(key(n), e)
		if got != want || (err != nil) != (want == Refused) {
			t.Fatalf("insert of %d: %v %v, want %v", n, got, err, want)
		}
		if have := l.Numbers(); have.Used != w.used() || have.Entries != len(w.list) || have.Used > have.Size {
			t.Fatalf("%+v, want %d entries of %d bytes", have, len(w.list), w.used())
		}
	}
	if n := l.Numbers(); n.Evictions == 0 || n.Lookups != n.Hits+n.Misses || n.LookupNanos == 0 || n.InsertionNanos == 0 {
		t.Errorf("numbers %+v", n)
	}
}

func TestLocalRefusesWhatIsLargerThanAll(t *testing.T) {
	p := pool(t)
	l := newLocal(minLocal)
	defer l.Close()
	got, err := l.Insert(key(1), entry(t, p, 1, 5000))
	if got != Refused || err == nil || !strings.Contains(err.Error(), "is greater than total cache size: 128") {
		t.Errorf("%v, %v", got, err)
	}
}

func BenchmarkLocalHit(b *testing.B) {
	p := memory.New(memory.Options{})
	l := newLocal(1 << 20)
	defer l.Close()
	if _, err := l.Insert(key(1), entry(b, p, 1, 64)); err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		l.Lookup(ctx, key(1)).Response().Release()
	}
}
