package guest

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// Guarded blocks that come back are handed out again as they are, and given up before the
// server is asked for more.
func TestGuardedBlocksAreKept(t *testing.T) {
	const size, whole = 100_000, 8 << 20 // with its guard a block of the size has 128 KiB
	data, err := anonymous(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(data) }()
	m := &guestMemory{}
	m.init(nil)
	m.own = []*guestSegment{{number: wire.FirstOutputSegment, data: data, blocks: segment.NewBuddy(whole)}}
	take := func(size int) wire.Block {
		t.Helper()
		at, data, err := m.guarded(size)
		if err != nil {
			t.Fatal(err)
		}
		data[0], data[len(data)-1] = 1, 1
		return wire.Block{Segment: at.Segment, Offset: at.Offset}
	}
	a, b := take(size), take(size)
	m.release(a)
	m.release(b)
	m.release(b) // as nobody does
	if other := take(size / 2); other == a || other == b {
		t.Errorf("a block of another size at %d, which is kept", other.Offset)
	}
	if got := take(size); got != b {
		t.Errorf("got the block at %d, want that at %d, which came back last", got.Offset, b.Offset)
	}
	if got := take(size); got != a {
		t.Errorf("got the block at %d, want that at %d", got.Offset, a.Offset)
	}
	all := []wire.Block{}
	for range keptGuards + 4 {
		all = append(all, take(size))
	}
	for _, k := range all {
		m.release(k)
	}
	if len(m.kept) != keptGuards || m.kept[0].key() != all[4] {
		t.Errorf("%d blocks are kept, the oldest is at %d; want %d, and %d", len(m.kept), m.kept[0].at.Offset, keptGuards, all[4].Offset)
	}
	for k := range m.guards {
		m.release(k)
	}
	at, everything, err := m.allocate(whole)
	if err != nil || at.Offset != 0 || len(m.kept) != 0 || len(m.guards) != 0 {
		t.Fatalf("all of the memory: at %d, %v, with %d blocks kept", at.Offset, err, len(m.kept))
	}
	clear(everything) // where a page were guarded still, this would end the test
}
