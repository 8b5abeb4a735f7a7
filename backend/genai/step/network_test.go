package step

import "testing"

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
