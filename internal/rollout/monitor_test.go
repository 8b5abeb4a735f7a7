package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMonitor plays transcripts: each step is n requests of a side at a time, which take
// so long or fail.
func TestMonitor(t *testing.T) {
	type step struct {
		at      time.Duration
		n       int
		watched bool
		fail    bool
		takes   time.Duration
		want    string
	}
	const ms = time.Millisecond
	errors := StepBack{Window: 10 * time.Second, MinRequests: 10, MaxErrorRate: 0.1, Quantile: 0.99}
	slow := StepBack{Window: 10 * time.Second, MinRequests: 10, MaxErrorRate: -1, Quantile: 0.9, MaxLatency: 100 * ms}
	ratio := StepBack{Window: 10 * time.Second, MinRequests: 10, MaxErrorRate: -1, Quantile: 0.5, MaxLatencyRatio: 2}
	for name, c := range map[string]struct {
		bounds StepBack
		steps  []step
	}{
		"too few to say": {errors, []step{{0, 9, true, true, 0, ""}, {0, 1, true, true, 0, "100.0 % of 10 requests in 10s failed"}}},
		"at the bound":   {errors, []step{{0, 9, true, false, ms, ""}, {0, 1, true, true, 0, ""}, {0, 1, true, true, 0, "18.2 % of 11"}}},
		"the other version may fail": {errors, []step{
			{0, 100, false, true, 0, ""}, {0, 20, true, false, ms, ""},
		}},
		"what is old is forgotten": {errors, []step{
			{0, 9, true, true, 0, ""}, {11 * time.Second, 9, true, true, 0, ""}, {12 * time.Second, 1, true, true, 0, "100.0 % of 10"},
		}},
		"a long pause": {errors, []step{{0, 9, true, true, 0, ""}, {time.Hour, 20, true, false, ms, ""}}},
		"slow": {slow, []step{
			{0, 18, true, false, ms, ""},
			{0, 2, true, false, 101 * ms, ""},
			{0, 1, true, false, 101 * ms, "14.3 % of 21 requests in 10s took longer than 100ms, the bound is 10.0 %"},
		}},
		"exactly at the latency": {slow, []step{{0, 20, true, false, 100 * ms, ""}}},
		"failures are not slow":  {slow, []step{{0, 20, true, true, time.Hour, ""}}},
		"ratio": {ratio, []step{
			{0, 9, false, false, 10 * ms, ""},
			{0, 20, true, false, 50 * ms, ""},
			{0, 1, false, false, 10 * ms, ""},
			{0, 1, true, false, 50 * ms, "more than 2 times"},
		}},
		"within the ratio": {ratio, []step{{0, 20, false, false, 10 * ms, ""}, {0, 20, true, false, 19 * ms, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMonitor(c.bounds)
			for i, s := range c.steps {
				got := ""
				for range s.n {
					got = m.Observe(int64(time.Hour+s.at), s.watched, s.fail, s.takes)
				}
				if s.want == "" && got != "" || !strings.Contains(got, s.want) {
					t.Fatalf("step %d: got %q, want %q", i, got, s.want)
				}
			}
		})
	}
}

// TestMonitorAgainstTwin compares the window with a list of all requests.
func TestMonitorAgainstTwin(t *testing.T) {
	type request struct {
		slice   int64
		failed  bool
		latency time.Duration
	}
	r := rand.New(rand.NewPCG(3, 4))
	bounds := StepBack{Window: time.Second, MinRequests: 5, MaxErrorRate: 0.5, MaxLatency: 40 * time.Millisecond, Quantile: 0.8}
	for round := range 50 {
		m, now := NewMonitor(bounds), int64(round)*1e9
		var all []request
		for range 500 {
			now += r.Int64N(int64(80 * time.Millisecond))
			q := request{now / m.width, r.IntN(3) == 0, time.Duration(r.IntN(60)) * time.Millisecond}
			all = append(all, q)
			got := m.Observe(now, true, q.failed, q.latency)
			all = slices.DeleteFunc(all, func(o request) bool { return o.slice <= q.slice-parts })
			var failed, over int
			for _, o := range all {
				switch {
				case o.failed:
					failed++
				case o.latency > bounds.MaxLatency:
					over++
				}
			}
			n, good := len(all), len(all)-failed
			want := ""
			if n >= 5 {
				switch {
				case float64(failed)/float64(n) > 0.5:
					want = fmt.Sprintf("of %d requests in 1s failed", n)
				case good > 0 && float64(good-over) < 0.8*float64(good):
					want = fmt.Sprintf("of %d requests in 1s took longer", n)
				}
			}
			if !strings.Contains(got, want) || want == "" && got != "" {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
}

func TestBuckets(t *testing.T) {
	last := -1
	for d := time.Duration(1); d < 500*time.Second; d += d/9 + 1 {
		b := bucket(d)
		if b < last {
			t.Fatalf("%s stands in %d, below the one before", d, b)
		}
		if last = b; b > 0 && b < bucketsCount-1 && (d < edge(b) || d >= edge(b+1)) {
			t.Fatalf("%s stands in [%s, %s)", d, edge(b), edge(b+1))
		}
	}
	if bucket(-1) != 0 {
		t.Error("a negative time has no place")
	}
}

func TestLiveTellsOnce(t *testing.T) {
	text := "weights: {1: 1, 2: 1}\nstep_back: {from: 2, min_requests: 2, max_error_rate: 0}"
	p, l := planOf(t, text, nil, 1, 2), NewLive()
	l.Apply(p)
	if plan, _ := l.Ended(1, 2, true, 0); plan != nil {
		t.Fatal("one request is too few")
	}
	l.Apply(planOf(t, text, nil, 1, 2)) // the same bounds: what was seen counts
	plan, why := l.Ended(1, 2, true, 0)
	if plan == nil || why == "" {
		t.Fatal("the bound was left")
	}
	if again, _ := l.Ended(1, 2, true, 0); again != nil {
		t.Error("it is told twice")
	}
	l.Apply(planOf(t, text, &Stepped{Version: 2}, 1, 2))
	if again, _ := l.Ended(1, 2, true, 0); again != nil {
		t.Error("it steps back from where it has stepped back")
	}
}
