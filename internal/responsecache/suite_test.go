package responsecache

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// pool returns a pool that must be empty of buffers in use when the test ends.
func pool(t testing.TB) *memory.Pool {
	t.Helper()
	p := memory.New(memory.Options{})
	t.Cleanup(func() {
		if left := p.Leaks(); len(left) > 0 {
			t.Errorf("%d buffers are left, the first from %s", len(left), left[0])
		}
		p.Close()
	})
	return p
}

func key(n int) (k Key) {
	copy(k[:], fmt.Sprintf("%032d", n))
	return k
}

// answer makes a response of two outputs and a parameter that n decides.
func answer(n, size int) *backend.Response {
	data := bytes.Repeat([]byte{byte(n)}, size)
	return &backend.Response{
		Outputs: []tensor.Tensor{
			{Name: "OUT", Datatype: tensor.Uint8, Shape: tensor.Shape{1, int64(size)}, Data: data},
			{Name: "TEXT", Datatype: tensor.Bytes, Shape: tensor.Shape{2}, Data: tensor.AppendElement(tensor.AppendElement(nil, "é"),
				fmt.Sprint(n))},
		},
		Parameters: []backend.Parameter{
			backend.Int("n", int64(n)), backend.String("s", "x"), backend.Bool("b", true), backend.Double("d", 0.5),
			backend.Uint("u", 1<<63),
		},
	}
}

func entry(t testing.TB, p tensor.Allocator, n, size int) *Entry {
	t.Helper()
	e, err := NewEntry(answer(n, size), MaxValue, p)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// is fails the test unless e is what answer made; it consumes e.
func is(t testing.TB, e *Entry, n, size int) {
	t.Helper()
	if e == nil {
		t.Errorf("entry %d is missing", n)
		return
	}
	got, want := e.Response(), answer(n, size)
	defer got.Release()
	if fmt.Sprint(got.Parameters) != fmt.Sprint(want.Parameters) || len(got.Outputs) != len(want.Outputs) {
		t.Errorf("got %+v, want %+v", got, want)
		return
	}
	for i, w := range want.Outputs {
		g := got.Outputs[i]
		if g.Name != w.Name || g.Datatype != w.Datatype || !g.Shape.Equal(w.Shape) || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("output %d: got %+v, want %+v", i, g, w)
		}
	}
}

// lines is a log that tests read.
type lines struct{ nesotest.Log }

func (l *lines) count(what string) int { return strings.Count(l.String(), what) }

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// until waits for what another process or goroutine brings about.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("%s: not within a minute", what)
}

// suite holds a store to the contract.
func suite(t *testing.T, open func(t *testing.T, p *memory.Pool) Store) {
	t.Run("what was stored is found", func(t *testing.T) {
		p := pool(t)
		s := open(t, p)
		defer s.Close()
		if e := s.Lookup(t.Context(), key(1)); e != nil {
			t.Error("an empty store has an entry")
		}
		for n, size := range []int{0, 1, 63, 5000, 300_000} {
			if got, err := s.Insert(key(n), entry(t, p, n, size)); got != Stored || err != nil {
				t.Errorf("insert of %d bytes: %v, %v", size, got, err)
			}
		}
		for range 2 {
			for n, size := range []int{0, 1, 63, 5000, 300_000} {
				is(t, s.Lookup(t.Context(), key(n)), n, size)
			}
		}
		if n := s.Numbers(); n.Lookups != 11 || n.Hits != 10 || n.Misses != 1 || !n.Up {
			t.Errorf("numbers %+v", n)
		}
	})
	t.Run("a reader keeps what is dropped", func(t *testing.T) {
		p := pool(t)
		s := open(t, p)
		if _, err := s.Insert(key(1), entry(t, p, 1, 100)); err != nil {
			t.Fatal(err)
		}
		e := s.Lookup(t.Context(), key(1))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		is(t, e, 1, 100)
	})
	t.Run("a closed store keeps nothing", func(t *testing.T) {
		p := pool(t)
		s := open(t, p)
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Insert(key(1), entry(t, p, 1, 100)); err != nil {
			t.Error(err)
		}
		if s.Lookup(t.Context(), key(1)) != nil {
			t.Error("an entry in a closed store")
		}
	})
	t.Run("many at once", func(t *testing.T) {
		p := pool(t)
		s := open(t, p)
		defer s.Close()
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 100 {
					n := (g*7 + i) % 20
					if e := s.Lookup(t.Context(), key(n)); e != nil {
						is(t, e, n, 100*n)
					} else if _, err := s.Insert(key(n), entry(t, p, n, 100*n)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}
