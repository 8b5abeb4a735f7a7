package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestAccount holds the ledger to a slow twin, a list of what each block owes: what is
// kept has one more reference for each time that it is, and none at the end.
func TestAccount(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var l Ledger
		bufs := make([]*tensor.Buffer, 4)
		for i := range bufs {
			bufs[i] = tensor.NewBuffer(make([]byte, 1), nil)
		}
		balance := map[wire.Block]int{} // held above 0, early below
		held := map[wire.Block][]*tensor.Buffer{}
		for range 500 {
			k := wire.Block{Segment: uint32(rng.IntN(2)), Offset: uint64(rng.IntN(2)) << 14}
			buf := bufs[rng.IntN(len(bufs))]
			switch rng.IntN(3) {
			case 0:
				l.Hold(k, buf)
				if balance[k] >= 0 {
					held[k] = append(held[k], buf)
				}
				balance[k]++
			case 1:
				if balance[k] < 0 {
					continue // what is given is new: no release of it can have come
				}
				l.Give(k, buf.Retain())
				held[k] = append(held[k], buf)
				balance[k]++
			case 2:
				got := l.Release(k)
				if (got != nil) != (balance[k] > 0) {
					t.Fatalf("seed %d: released %v with a balance of %d", seed, got, balance[k])
				}
				balance[k]--
				if got == nil {
					continue
				}
				list := held[k]
				if list[len(list)-1] != got {
					t.Fatalf("seed %d: released another than the last", seed)
				}
				held[k] = list[:len(list)-1]
				got.Release()
			}
			for k := range balance {
				if !slices.Equal(l.Held(k), held[k]) {
					t.Fatalf("seed %d: %d are held, want %d", seed, len(l.Held(k)), len(held[k]))
				}
			}
		}
		want := map[*tensor.Buffer]int{}
		for _, list := range held {
			for _, b := range list {
				want[b]++
			}
		}
		for _, b := range l.End() {
			want[b]--
			b.Release()
		}
		for _, b := range bufs {
			if want[b] != 0 || b.References() != 1 {
				t.Errorf("seed %d: %d missing at the end, %d references", seed, want[b], b.References())
			}
		}
	}
}

// TestEarlyReleasesAreBounded: a worker that releases what it was never given does not
// fill the server's memory.
func TestEarlyReleasesAreBounded(t *testing.T) {
	var l Ledger
	for n := range earlyLimit {
		if l.Release(wire.Block{Offset: uint64(n)}); l.Overdrawn() {
			t.Fatalf("overdrawn after %d", n+1)
		}
	}
	if l.Release(wire.Block{Segment: 1}); !l.Overdrawn() {
		t.Error("not overdrawn")
	}
}

// TestReturns: what the worker may use again is told once.
func TestReturns(t *testing.T) {
	var l Ledger
	a, b := wire.Block{Segment: wire.FirstOutputSegment}, wire.Block{Segment: wire.FirstOutputSegment, Offset: 1 << 14}
	if l.Return(a) != 1 || l.Return(b) != 2 || !l.Returns() {
		t.Error("not noted")
	}
	var got []wire.Block
	frame := l.AppendReturns(nil)
	if err := wire.DecodeRelease(frame[wire.HeaderSize:], func(k wire.Block) { got = append(got, k) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []wire.Block{a, b}) {
		t.Errorf("told %v", got)
	}
	if l.Returns() || len(l.AppendReturns(nil)) != 0 {
		t.Error("told twice")
	}
}
