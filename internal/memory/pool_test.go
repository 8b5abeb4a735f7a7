package memory

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/nesoserve/neso/internal/invariants"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func allocate(t testing.TB, p *Pool, size int) *tensor.Buffer {
	t.Helper()
	b, err := p.Allocate(size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestClasses(t *testing.T) {
	for c := range classes {
		size := classSize(c)
		if size%tensor.Alignment != 0 {
			t.Errorf("class %d: size %d is not aligned", c, size)
		}
		if got := classOf(size); got != c {
			t.Errorf("classOf(%d) = %d, want %d", size, got, c)
		}
		if c+1 < classes {
			if got := classOf(size + 1); got != c+1 {
				t.Errorf("classOf(%d) = %d, want %d", size+1, got, c+1)
			}
		}
	}
	if got := classOf(0); got != 0 {
		t.Errorf("classOf(0) = %d, want 0", got)
	}
}

func TestAllocateIsExactAndAligned(t *testing.T) {
	p := New(Options{})
	defer p.Close()
	for _, size := range []int{0, 1, 63, 64, 65, 100, 192, 193, 256, 257, 4095, 4096, 64 << 10, 64<<10 + 1, 1 << 20, 3<<20 + 7} {
		b := allocate(t, p, size)
		if b.Len() != size {
			t.Errorf("Allocate(%d) has %d bytes", size, b.Len())
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes()))); at%tensor.Alignment != 0 {
			t.Errorf("Allocate(%d) lies at %#x", size, at)
		}
		b.Release()
	}
	if leaks := p.Leaks(); len(leaks) != 0 {
		t.Errorf("leaks: %v", leaks)
	}
}

func TestAllocateRefusesImpossibleSizes(t *testing.T) {
	p := New(Options{Limit: 1 << 20})
	defer p.Close()
	for _, size := range []int{-1, 1 << 62, 2 << 20} {
		if b, err := p.Allocate(size); err == nil {
			t.Errorf("Allocate(%d) = %d bytes, want an error", size, b.Len())
		}
	}
	b := allocate(t, p, 1<<20)
	if _, err := p.Allocate(100 << 10); err == nil {
		t.Error("Allocate beyond the limit succeeded")
	}
	b.Release()
	allocate(t, p, 100<<10).Release()
}

func TestLargeBuffersAreReusedBoundedAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Cache: 2 << 20, Idle: time.Second})
		defer p.Close()
		a, b, c := allocate(t, p, 1<<20), allocate(t, p, 1<<20), allocate(t, p, 1<<20)
		if got, want := p.Usage(), (Usage{InUse: 3 << 20}); got != want {
			t.Errorf("usage %+v, want %+v", got, want)
		}
		at := &a.Bytes()[0]
		c.Release()
		a.Release()
		b.Release() // does not fit
		if got, want := p.Usage(), (Usage{Idle: 2 << 20}); got != want {
			t.Errorf("usage %+v, want %+v", got, want)
		}
		time.Sleep(600 * time.Millisecond)
		a = allocate(t, p, 1<<20-5)
		if &a.Bytes()[0] != at {
			t.Error("the last idle buffer was not used first")
		}
		a.Release()
		time.Sleep(600 * time.Millisecond) // c idle for 1.2 s, a for 0.6 s
		synctest.Wait()
		if got, want := p.Usage(), (Usage{Idle: 1 << 20}); got != want {
			t.Errorf("usage %+v, want %+v", got, want)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := p.Usage(); got != (Usage{}) {
			t.Errorf("usage %+v, want none", got)
		}
	})
}

func TestInvariantsShowUseAfterFreeAndLeaks(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs -tags invariants")
	}
	p := New(Options{})
	defer p.Close()
	b := allocate(t, p, 1<<20)
	if leaks := p.Leaks(); len(leaks) != 1 || !strings.Contains(leaks[0], "TestInvariantsShow") {
		t.Errorf("leaks: %v", leaks)
	}
	data := b.Bytes()
	b.Release()
	if data[5] != scribbled {
		t.Errorf("freed memory holds %#x", data[5])
	}
	data[5] = 1
	defer func() {
		if recover() == nil {
			t.Error("a write to freed memory went unnoticed")
		}
	}()
	_, _ = p.Allocate(1 << 20)
}

func TestConcurrentUse(t *testing.T) {
	p := New(Options{Cache: 1 << 20})
	defer p.Close()
	rounds := 500
	if invariants.Enabled {
		rounds = 100 // each writes over and reads all that it gives back
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range rounds {
				b, err := p.Allocate((i * 977 * (g + 1)) % (200 << 10))
				if err != nil {
					t.Error(err)
					return
				}
				for j := range b.Bytes() {
					b.Bytes()[j] = byte(g)
					if j > 64 {
						break
					}
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	if u := p.Usage(); u.InUse != 0 || u.Idle > 1<<20 {
		t.Errorf("usage %+v", u)
	}
}

func TestAllocationCeiling(t *testing.T) {
	if invariants.Enabled {
		t.Skip("invariants builds record every buffer")
	}
	p := New(Options{})
	defer p.Close()
	for _, size := range []int{64, 4096, 1 << 20} {
		// A collection during the run may empty the small pools: hence not 0.
		if n := testing.AllocsPerRun(1000, func() { b, _ := p.Allocate(size); b.Release() }); n > 0.5 && !raceEnabled {
			t.Errorf("Allocate(%d) and Release: %v allocations, want 0", size, n)
		}
	}
}

func BenchmarkAllocate(b *testing.B) {
	for _, bench := range []struct {
		name string
		size int
	}{{"64", 64}, {"4KiB", 4 << 10}, {"1MiB", 1 << 20}} {
		b.Run(bench.name, func(b *testing.B) {
			p := New(Options{})
			defer p.Close()
			b.ReportAllocs()
			for b.Loop() {
				buf, _ := p.Allocate(bench.size)
				buf.Release()
			}
		})
	}
}
