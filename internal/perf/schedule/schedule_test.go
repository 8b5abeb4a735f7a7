package schedule

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestArrivals(t *testing.T) {
	take := func(a Arrivals, n int) (all []time.Duration) {
		for range n {
			all = append(all, a.Next())
		}
		return all
	}
	if got, want := take(Constant(4), 3), []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("constant: %v, want %v", got, want)
	}
	c := Constant(3)
	if last := take(c, 3_000_001)[3_000_000]; last != 1_000_000*time.Second {
		t.Errorf("request 3,000,000 at 3 a second is due at %v", last)
	}
	gaps := []time.Duration{time.Millisecond, 3 * time.Millisecond}
	want := []time.Duration{0, time.Millisecond, 4 * time.Millisecond, 5 * time.Millisecond}
	if got := take(Intervals(gaps), 4); !slices.Equal(got, want) {
		t.Errorf("intervals: %v, want %v", got, want)
	}
	if got := MeanRate(gaps); got != 500 {
		t.Errorf("mean rate %v", got)
	}
	due := []time.Duration{time.Second, time.Second, 3 * time.Second}
	if got, want := take(Times(due), 4), append(due[:3:3], 3*time.Second); !slices.Equal(got, want) {
		t.Errorf("times: %v, want %v", got, want)
	}
	const n = 100_000
	all := take(Poisson(1000, rand.New(rand.NewPCG(1, 2))), n+1)
	mean := all[n].Seconds() / n
	var squares float64
	for i := range n {
		d := (all[i+1] - all[i]).Seconds() - mean
		squares += d * d
	}
	if deviation := math.Sqrt(squares / n); math.Abs(mean*1000-1) > 0.02 || math.Abs(deviation*1000-1) > 0.02 {
		t.Errorf("poisson: mean %v, deviation %v, want 1 ms each", mean, deviation)
	}
}

func TestGaps(t *testing.T) {
	for text, want := range map[string]string{
		"10\n\n20\n": "", "": "no time passes", "0\n": "no time passes", "10\nx\n": "line 2", "-1\n": "line 1", "1.5\n": "line 1",
	} {
		gaps, err := Gaps(strings.NewReader(text))
		good := err == nil && len(gaps) == 2 && gaps[1] == 20*time.Microsecond
		if want == "" && !good || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v, want %q", text, gaps, err, want)
		}
	}
}

// TestSearch walks a server that keeps the limit up to a load.
func TestSearch(t *testing.T) {
	for name, c := range map[string]struct {
		search Search
		limit  float64
		want   []float64
	}{
		"linear":               {Linear(1, 7, 3), 100, []float64{1, 4, 7}},
		"linear to the limit":  {Linear(1, 0, 2), 4, []float64{1, 3, 5}},
		"binary":               {Binary(1, 16, 1), 11, []float64{1, 16, 8, 12, 10, 11}},
		"binary, coarse":       {Binary(1, 16, 4), 11, []float64{1, 16, 8, 12}},
		"binary, end holds":    {Binary(1, 16, 1), 16, []float64{1, 16}},
		"binary, start misses": {Binary(2, 16, 1), 1, []float64{2}},
		"binary of one":        {Binary(2, 2, 1), 9, []float64{2}},
		"binary of a rate":     {Binary(0.5, 2.5, 0.5), 1, []float64{0.5, 2.5, 1.5, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []float64
			for met := true; ; {
				load, more := c.search.Next(met)
				if !more {
					break
				}
				got = append(got, load)
				met = load <= c.limit
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestRamp(t *testing.T) {
	r := NewRamp(2, 7, 3, 2)
	if n := r.Begin(); n != 2 {
		t.Fatalf("%d begin", n)
	}
	var joined []int
	for request := range 7 {
		for n := 1; n <= 3; n++ {
			joined = append(joined, r.Response(request, n))
		}
	}
	// The second of the first two brings three more, the last of those two more.
	want := []int{0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}
	if !slices.Equal(joined, want) || r.Sent() != 7 {
		t.Errorf("joined %v, want %v; sent %d", joined, want, r.Sent())
	}
}

func TestSequences(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, err := NewSequences(SequenceOptions{Slots: 2, First: 5, Range: 3, Streams: []int{2, 1}}, random)
	if err != nil {
		t.Fatal(err)
	}
	var got []Position
	for _, slot := range []int{0, 1, 0, 0, 1, 0} {
		got = append(got, s.Next(slot))
	}
	want := []Position{
		{ID: 5, Start: true},
		{ID: 6, Start: true, End: true, Stream: 1},
		{ID: 5, End: true, Step: 1},
		{ID: 7, Start: true},
		{ID: 5, Start: true, End: true, Stream: 1},
		{ID: 7, End: true, Step: 1},
	}
	if !slices.Equal(got, want) || s.ended != 4 {
		t.Errorf("got %+v\nwant %+v; ended %d", got, want, s.ended)
	}
	if _, err := NewSequences(SequenceOptions{Slots: 4, First: 5, Range: 3, Streams: []int{1}}, random); err == nil {
		t.Error("four sequences with three ids")
	}
	// The end of a sequence may be on its way until its slot goes on: no other has its id before.
	s, _ = NewSequences(SequenceOptions{Slots: 2, First: 7, Range: 2, Streams: []int{2}}, random)
	for _, slot := range []int{0, 1, 0, 0, 0, 1, 0} {
		if p, want := s.Next(slot), uint64(7+slot); p.ID != want {
			t.Errorf("slot %d has sequence %d, want %d", slot, p.ID, want)
		}
	}
	s, _ = NewSequences(SequenceOptions{Slots: 1, First: 1, Length: 10, Variation: 20, Streams: []int{3}}, random)
	lengths, n := map[int]int{}, 0
	for range 10_000 {
		p := s.Next(0)
		if n++; p.End {
			lengths[n]++
			n = 0
		}
		if p.Step > 2 {
			t.Fatalf("step %d of 3", p.Step)
		}
	}
	for l := range lengths {
		if l < 8 || l > 12 {
			t.Errorf("a sequence of %d requests, want 8 to 12", l)
		}
	}
	s.Next(0)
	if p := s.Unfinished(); len(p) != 1 || p[0].ID == 0 || !p[0].End || p[0].Start {
		t.Errorf("under way: %+v", p)
	}
	s.Abandon(0)
	if p := s.Unfinished(); len(p) != 0 {
		t.Errorf("after all were abandoned: %+v", p)
	}
	if p := s.Next(0); !p.Start {
		t.Error("after a sequence was abandoned its slot goes on with it")
	}
}
