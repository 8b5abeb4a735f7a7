package rollout

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func planOf(t *testing.T, text string, stepped *Stepped, versions ...int64) *Plan {
	t.Helper()
	r, err := Parse([]byte(text), File)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(r, stepped, plain(versions...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMakeRefuses(t *testing.T) {
	is := func(versions ...int64) func(int64) bool {
		return func(v int64) bool { return slices.Contains(versions, v) }
	}
	for _, c := range []struct {
		text  string
		spoil func(s *Subject)
		want  string
	}{
		{"labels: {a: 3}", nil, "labels.a: version 3 is not loaded: the version policy loads 1, 2"},
		{"weights: {a: 1}", nil, "weights.a: there is no label 'a'"},
		{"weights: {3: 1}", nil, "weights.3: version 3 is not loaded"},
		{"weights: {3: 0, 1: 1}", nil, "weights.3: version 3 is not loaded"},
		{"mirror: {to: 3}", nil, "mirror.to: version 3 is not loaded"},
		{"weights: {1: 1, 2: 1}", func(s *Subject) { s.Passes = is(2) }, "weights: version 2 is an ensemble of a model with sequences"},
		{"weights: {2: 1}\nstep_back: {from: 2, max_error_rate: 0}", nil, "there is no other version with a weight to step back to"},
		{"step_back: {from: b, max_error_rate: 0}", nil, "step_back.from: there is no label 'b'"},
	} {
		r, err := Parse([]byte(c.text), File)
		if err != nil {
			t.Fatal(err)
		}
		s := plain(1, 2)
		if c.spoil != nil {
			c.spoil(&s)
		}
		if _, err := Make(r, nil, s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.text, err, c.want)
		}
	}
}

// TestPartial: what rules say of versions that are missing waits, and gives nothing to a
// version that was to have nothing.
func TestPartial(t *testing.T) {
	const rules = "labels: {stable: 1, canary: 2}\nweights: {stable: 1, canary: 3}\nmirror: {to: canary}\n" +
		"step_back: {from: canary, max_error_rate: 0}"
	for _, c := range []struct {
		text    string
		stepped *Stepped
		there   []int64
		primary int64 // 0 for an error
		watched int64
	}{
		{rules, nil, []int64{1}, 1, 0},
		{rules, nil, []int64{2}, 2, 0},
		{rules, nil, []int64{1, 2}, 2, 2},
		{rules, &Stepped{Version: 2}, []int64{1, 2}, 1, 2},
		{rules, &Stepped{Version: 2}, []int64{1}, 1, 0},
		{rules, &Stepped{Version: 2}, []int64{2}, 0, 0},
		{"weights: {1: 0, 2: 1}", nil, []int64{1}, 0, 0},
		{"labels: {a: 1, b: 2}", nil, []int64{1}, 1, 0},
		{"weights: {a: 1}", nil, []int64{1}, 0, 0},
	} {
		r, err := Parse([]byte(c.text), File)
		if err != nil {
			t.Fatal(err)
		}
		s := plain(c.there...)
		s.Partial = true
		p, err := Make(r, c.stepped, s)
		switch {
		case (err != nil) != (c.primary == 0):
			t.Errorf("%s, versions %v: %v", c.text, c.there, err)
		case err == nil && (p.Primary != c.primary || p.Watched != c.watched || p.MirrorTo != 0 && len(c.there) == 1 && c.there[0] == 1):
			t.Errorf("%s, versions %v: primary %d, watched %d, mirror to %d", c.text, c.there, p.Primary, p.Watched, p.MirrorTo)
		}
	}
}

func TestChoose(t *testing.T) {
	p := planOf(t, "labels: {stable: 1, canary: 2, also: 2}\nweights: {stable: 6, canary: 1, also: 1, 3: 2}", nil, 1, 2, 3)
	if p.Primary != 1 || p.Share(1) != 0.6 || p.Share(2) != 0.2 || p.Share(3) != 0.2 || p.Share(4) != 0 {
		t.Errorf("the shares are %v, the primary version is %d", p.shares, p.Primary)
	}
	got := map[int64]int{}
	for n := range uint64(1000) {
		v, why := p.Choose("", n)
		if got[v]++; why != ByWeight {
			t.Fatalf("got %s", why)
		}
	}
	if fmt.Sprint(got) != "map[1:600 2:200 3:200]" {
		t.Errorf("got %v", got)
	}
	if l := fmt.Sprint(p.Labelled(2)); l != "[also canary]" {
		t.Errorf("version 2 has the labels %s", l)
	}
	none := planOf(t, "labels: {a: 1}", nil, 1, 2)
	if v, why := none.Choose("key", 0); v != 2 || why != ByDefault {
		t.Errorf("without weights got version %d by %s, want the latest", v, why)
	}
}

func TestSteppedBack(t *testing.T) {
	text := "labels: {c: 2}\nweights: {1: 9, c: 91}\nstep_back: {from: c, max_error_rate: 0}"
	p := planOf(t, text, &Stepped{Version: 2}, 1, 2)
	if p.Primary != 1 || p.Watched != 2 || p.Beside != 1 || p.Share(1) != 1 {
		t.Errorf("got %+v", p)
	}
	for n := range uint64(100) {
		if v, _ := p.Choose("", n); v != 1 {
			t.Fatalf("version %d gets requests", v)
		}
		if v, _ := p.Choose(fmt.Sprint(n), n); v != 1 {
			t.Fatalf("version %d gets sticky requests", v)
		}
	}
}

// TestStickyHolds: keys are shared as the weights say, and a key moves only to a
// version whose weight has grown, or from one whose weight has shrunk.
func TestStickyHolds(t *testing.T) {
	const keys = 20000
	weights := [][3]int{{90, 10, 0}, {80, 20, 0}, {50, 50, 0}, {50, 50, 100}, {0, 100, 100}}
	before := make([]int64, keys)
	for step, w := range weights {
		p := planOf(t, fmt.Sprintf("weights: {1: %d, 2: %d, 3: %d}", w[0], w[1], w[2]), nil, 1, 2, 3)
		var got [4]float64
		for i := range keys {
			v, why := p.Choose(fmt.Sprintf("user-%d", i), rand.Uint64())
			if why != BySticky {
				t.Fatalf("got %s", why)
			}
			if again, _ := p.Choose(fmt.Sprintf("user-%d", i), rand.Uint64()); again != v {
				t.Fatalf("a key went to %d and to %d", v, again)
			}
			got[v]++
			if step > 0 {
				old, from := weights[step-1], before[i]
				if v != from && w[v-1] <= old[v-1] && w[from-1] >= old[from-1] {
					t.Fatalf("step %d: key %d moved from %d to %d, of which neither has changed", step, i, from, v)
				}
			}
			before[i] = v
		}
		for v := 1; v <= 3; v++ {
			if want := keys * float64(w[v-1]) / float64(sum(w)); math.Abs(got[v]-want) > 0.02*keys {
				t.Errorf("step %d: version %d has %v keys, want about %v", step, v, got[v], want)
			}
		}
	}
}

func sum(w [3]int) int { return w[0] + w[1] + w[2] }

func TestMirrors(t *testing.T) {
	p := planOf(t, "mirror: {to: 2, percent: 25}", nil, 1, 2)
	r := rand.New(rand.NewPCG(1, 2))
	n := 0
	for range 10000 {
		if p.Mirrors(1, r.Uint64()) {
			n++
		}
	}
	if n < 2300 || n > 2700 {
		t.Errorf("%d of 10000 are copied, want a quarter", n)
	}
	if p.Mirrors(2, 0) {
		t.Error("what the version answers itself is copied to it")
	}
	if p := planOf(t, "mirror: {to: 2, percent: 0}", nil, 1, 2); p.Mirrors(1, 0) {
		t.Error("nothing was to be copied")
	}
}
