package cli

import "testing"

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 400}, {4 << 20, 400}, {16 << 20, 400}, {32 << 20, 200}, {64 << 20, 100}, {4 << 30, 100}} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("%d MiB: %d %%, want %d", c.live>>20, got, c.want)
		}
	}
}
