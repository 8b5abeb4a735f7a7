package segment

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// TestBuddyProperties runs random allocations against an obvious account of
// what is handed out: blocks lie inside, do not overlap, and everything joins
// again when all is free.
func TestBuddyProperties(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		const size = 64 * MinBlock
		b := NewBuddy(size)
		taken := map[uint64]uint64{}
		for range 2000 {
			if rng.IntN(2) == 0 {
				order := rng.IntN(5)
				off, ok := b.Alloc(order)
				n := uint64(MinBlock) << order
				if !ok {
					continue
				}
				if off%n != 0 || off+n > size {
					t.Fatalf("seed %d: block of %d at %d", seed, n, off)
				}
				for o, m := range taken {
					if off < o+m && o < off+n {
						t.Fatalf("seed %d: blocks at %d and %d overlap", seed, off, o)
					}
				}
				taken[off] = n
				continue
			}
			for off := range taken {
				if !b.Free(off) {
					t.Fatalf("seed %d: block at %d cannot be freed", seed, off)
				}
				if b.Free(off) {
					t.Fatalf("seed %d: block at %d freed twice", seed, off)
				}
				delete(taken, off)
				break
			}
			var used uint64
			for _, n := range taken {
				used += n
			}
			if used != b.used {
				t.Fatalf("seed %d: %d bytes used, want %d", seed, b.used, used)
			}
		}
		for off := range taken {
			b.Free(off)
		}
		if off, ok := b.Alloc(b.orders); !ok || off != 0 {
			t.Fatalf("seed %d: the free blocks did not join", seed)
		}
	}
}

func TestBuddyClean(t *testing.T) {
	b := NewBuddy(4 * MinBlock)
	clean := func() (total uint64) {
		b.clean(func(_, n uint64) { total += n })
		return total
	}
	if n := clean(); n != 0 {
		t.Errorf("%d bytes of fresh memory are dirty", n)
	}
	off, _ := b.Alloc(0)
	if n := clean(); n != 0 {
		t.Errorf("%d bytes beside a block in use are dirty", n)
	}
	b.Free(off)
	if n := clean(); n == 0 {
		t.Error("freed memory is clean")
	}
	if n := clean(); n != 0 {
		t.Errorf("%d bytes are still dirty", n)
	}
}

func TestArena(t *testing.T) {
	a := NewArena(nil, DefaultInlineLimit, 256<<20)
	defer a.Close()
	small, err := a.Allocate(DefaultInlineLimit)
	if err != nil || small.Region() != (tensor.Region{}) {
		t.Fatalf("small tensors lie at %v (%v)", small.Region(), err)
	}
	small.Release()
	var blocks []*tensor.Buffer
	for _, n := range []int{DefaultInlineLimit + 1, MinBlock, MinBlock + 1, 1 << 20, segmentSize, 3 << 20} {
		b, err := a.Allocate(n)
		if err != nil {
			t.Fatal(err)
		}
		if b.Len() != n || b.Region().Arena != any(a) || b.Region().Offset%tensor.Alignment != 0 {
			t.Fatalf("%d bytes: %d at %v", n, b.Len(), b.Region())
		}
		b.Bytes()[0], b.Bytes()[n-1] = 1, 2
		blocks = append(blocks, b)
	}
	if _, err := a.Allocate(512 << 20); err == nil {
		t.Error("the limit is not kept")
	}
	if _, err := a.Allocate(-1); err == nil {
		t.Error("a negative size is taken")
	}
	for i, b := range blocks {
		if b.Bytes()[0] != 1 || b.Bytes()[b.Len()-1] != 2 {
			t.Errorf("block %d was overwritten", i)
		}
		b.Release()
	}
	for _, s := range a.segments {
		if s.blocks.used != 0 {
			t.Errorf("segment %d: %d bytes in use", s.number, s.blocks.used)
		}
	}
}

// TestArenaCloseWaits keeps a block over Close: its memory must stay.
func TestArenaCloseWaits(t *testing.T) {
	a := NewArena(nil, DefaultInlineLimit, 0)
	b, err := a.Allocate(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	b.Bytes()[1<<20-1] = 1 // would fault
	if _, err := a.Allocate(1 << 20); err == nil {
		t.Error("a closed arena gives memory")
	}
	b.Release()
	if a.segments[0].data != nil {
		t.Error("the segment is still mapped")
	}
	a.Close()
}

func TestArenaPunchesIdleMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pages are given back on Linux only")
	}
	a := NewArena(nil, DefaultInlineLimit, 0)
	defer a.Close()
	b, err := a.Allocate(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	copy(b.Bytes(), bytes.Repeat([]byte{7}, 1<<20))
	data := b.Bytes()
	b.Release()
	a.tick() // used a moment ago
	if data[0] != 7 {
		t.Error("memory in use was given back")
	}
	a.tick()
	if data[0] != 0 || data[1<<20-1] != 0 {
		t.Error("idle memory was not given back")
	}
}

func TestArenaLocate(t *testing.T) {
	a, other := NewArena(nil, 0, 0), NewArena(nil, 0, 0)
	defer a.Close()
	defer other.Close()
	b, err := a.Allocate(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	at := b.Region().Offset
	for _, c := range []struct {
		name string
		t    tensor.Tensor
		want wire.Place
		ok   bool
	}{
		{"whole", tensor.Tensor{Data: b.Bytes(), Buffer: b}, wire.Place{Offset: at}, true},
		{"part", tensor.Tensor{Data: b.Bytes()[128:256], Buffer: b}, wire.Place{Offset: at + 128}, true},
		{"unaligned", tensor.Tensor{Data: b.Bytes()[4:], Buffer: b}, wire.Place{}, false},
		{"not of the buffer", tensor.Tensor{Data: make([]byte, 8), Buffer: b}, wire.Place{}, false},
		{"ordinary", tensor.Tensor{Data: make([]byte, 8)}, wire.Place{}, false},
		{"empty", tensor.Tensor{Buffer: b}, wire.Place{}, false},
	} {
		got, ok := a.Locate(&c.t)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: got %v %v, want %v %v", c.name, got, ok, c.want, c.ok)
		}
		if _, ok := other.Locate(&c.t); ok {
			t.Errorf("%s: found in another arena", c.name)
		}
	}
}

func TestOutputsView(t *testing.T) {
	var released []wire.Block
	o := NewOutputs(64<<20, func(k wire.Block) { released = append(released, k) })
	s, err := o.Grow(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	size := uint64(len(s.data))
	for _, c := range []struct {
		segment        uint32
		offset, length uint64
		ok             bool
	}{
		{s.number, 0, 1, true},
		{s.number, 0, size, true},
		{s.number, size - 64, 64, true},
		{s.number, size - 64, 65, false},
		{s.number, size + 64, 0, false},
		{s.number, 32, 1, false},
		{s.number, 1<<64 - 64, 128, false},
		{s.number, 64, 1<<64 - 1, false},
		{s.number + 1, 0, 1, false},
		{0, 0, 1, false},
		{wire.InlineSegment, 0, 1, false},
	} {
		b, err := o.View(c.segment, c.offset, c.length)
		if (err == nil) != c.ok {
			t.Errorf("%v: %v", c, err)
		}
		b.Release()
	}
	if len(released) != 3 {
		t.Errorf("%d notices, want 3", len(released))
	}
	if _, err := o.Grow(1 << 40); err == nil {
		t.Error("the limit is not kept")
	}
	v, err := o.View(s.number, 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	o.Close()
	_ = v.Bytes()[0] // would fault
	v.Release()
	if len(released) != 3 {
		t.Error("a notice after the end")
	}
}
