package step

import (
	"math/rand/v2"
	"testing"
)

func TestRoom(t *testing.T) {
	for _, c := range []struct {
		name       string
		have, need Room
		limit      int64
		want       Room
	}{
		{"the first text", Room{}, Room{1, 100}, 1 << 20, Room{1, 128}},
		{"one that fits", Room{4, 128}, Room{3, 100}, 1 << 20, Room{4, 128}},
		{"one more text than there is room for", Room{2, 128}, Room{3, 100}, 1 << 20, Room{4, 128}},
		{"a longer one", Room{4, 128}, Room{2, 500}, 1 << 20, Room{2, 512}},
		{"no more rows than there may be", Room{8, 64}, Room{9, 64}, 1 << 20, Room{10, 64}},
		{"no more memory than there is", Room{2, 128}, Room{3, 100}, 384, Room{3, 128}},
		{"not even for a round length", Room{}, Room{3, 100}, 300, Room{3, 100}},
		{"after a long one", Room{2, 4096}, Room{2, 100}, 1 << 20, Room{2, 128}},
	} {
		if got := c.have.Fit(c.need, c.limit, 10); got != c.want {
			t.Errorf("%s: %+v.Fit(%+v) is %+v, want %+v", c.name, c.have, c.need, got, c.want)
		}
	}
}

// TestRoomAlwaysFits: whatever comes, it has room, and no more memory is used than there is.
func TestRoomAlwaysFits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	have, limit, most := Room{}, int64(20_000), 16
	for range 10_000 {
		need := Room{1 + random.IntN(most), 1 + random.IntN(3000)}
		if need.Tokens() > limit {
			continue
		}
		have = have.Fit(need, limit, most)
		if have.Rows < need.Rows || have.Length < need.Length || have.Tokens() > limit || have.Rows > most {
			t.Fatalf("%+v for %+v", have, need)
		}
	}
}
