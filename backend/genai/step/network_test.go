package step

import (
	"slices"
	"testing"

	"github.com/nesoserve/neso/tensor"
)

func TestLogitsOf16Bits(t *testing.T) {
	n := &Network{layout: &layout{scores: tensor.FP16}}
	got := n.floats([]byte{0x00, 0x3c, 0x00, 0xc0, 0x00, 0x00, 0xff, 0x7b})
	if want := []float32{1, -2, 0, 65504}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLikeliest(t *testing.T) {
	logits := []float32{1, 3, 2, 3, -1}
	for _, c := range []struct {
		without []int32
		want    int32
	}{{nil, 1}, {[]int32{1}, 3}, {[]int32{1, 3}, 2}} {
		if got := Likeliest(logits, c.without); got != c.want {
			t.Errorf("without %v: %d, want %d", c.without, got, c.want)
		}
	}
}
