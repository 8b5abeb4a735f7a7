package trial

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
)

func level(concurrency int, throughput, p99 float64, more ...func(*Level)) Level {
	l := Level{Load: Load{Concurrency: concurrency, Batch: 1}, Models: map[string]*Number{"m": {
		Throughput: Stat{throughput, 0.01 * throughput, 4}, Latency: map[string]Stat{"p99": {p99, 0.01 * p99, 4}, "avg": {p99 / 2, 0, 4}},
		CPU: Stat{10, 0.1, 4}, Requests: 100, Stable: true,
	}}, Memory: 100e6}
	for _, f := range more {
		f(&l)
	}
	return l
}

func variant(batch string) Variant {
	return Variant{"m": {edit.Change{Field: "max_batch_size", Value: json.RawMessage(batch)}}}
}

func goal(objective Metric, limits map[Metric]Limit) Goal {
	return Goal{"m": {Objectives: map[Metric]float64{objective: 1}, Limits: limits, Weight: 1}}
}

func TestStat(t *testing.T) {
	s := StatOf([]float64{1, 2, 3, 4})
	if s.Mean != 2.5 || s.N != 4 || math.Abs(s.Deviation-1.2909944) > 1e-6 || math.Abs(s.Error()-0.6454972) > 1e-6 {
		t.Errorf("got %+v, error %g", s, s.Error())
	}
	if got := Pool([]Stat{{1, 5, 3}, {3, 9, 3}}); got != (Stat{2, math.Sqrt2, 2}) {
		t.Errorf("pooled %+v", got)
	}
	if got := StatOf([]float64{7}); got != (Stat{7, 0, 1}) {
		t.Errorf("of one %+v", got)
	}
}

func TestDiffer(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b Stat
		want bool
	}{
		{"far apart", Stat{100, 1, 3}, Stat{110, 1, 3}, true},
		{"within the noise", Stat{100, 10, 3}, Stat{110, 10, 3}, false},
		{"two of each need much", Stat{100, 3, 2}, Stat{110, 3, 2}, false},
		{"measured once", Stat{100, 0, 1}, Stat{200, 0, 1}, false},
		{"without any spread", Stat{100, 0, 3}, Stat{101, 0, 3}, true},
		{"equal", Stat{100, 0, 3}, Stat{100, 0, 3}, false},
	} {
		if got := Differ(c.a, c.b); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestBestKeepsLimits(t *testing.T) {
	fallen := func(l *Level) { l.Failure = "it fell over" }
	levels := []Level{level(1, 100, 5), level(4, 300, 15), level(16, 400, 60), level(32, 900, 1, fallen)}
	none := map[Metric]Limit{}
	budget := map[Metric]Limit{LatencyP99: {math.NaN(), 20}}
	for _, c := range []struct {
		name      string
		objective Metric
		limits    map[Metric]Limit
		want      int
	}{
		{"throughput", Throughput, none, 16},
		{"throughput within 20 ms", Throughput, budget, 4},
		{"latency", LatencyP99, none, 1},
		{"latency with so much throughput", LatencyP99, map[Metric]Limit{Throughput: {350, math.NaN()}}, 16},
		{"nearest to what cannot be kept", Throughput, map[Metric]Limit{LatencyP99: {math.NaN(), 1}}, 1},
		{"no such number", GPUUsed, none, 1},
	} {
		best, _ := goal(c.objective, c.limits).Best(levels)
		if best == nil || best.Load.Concurrency != c.want {
			t.Errorf("%s: got %+v, want concurrency %d", c.name, best, c.want)
		}
	}
}

// TestPhases: a phase that took no time is better than one that took some.
func TestPhases(t *testing.T) {
	g := goal(Queue, nil)
	none, some := level(1, 100, 5), level(1, 100, 5)
	some.Models["m"].Queue = 0.5
	if !g.Score(&none).Better(g.Score(&some)) {
		t.Error("a queue of 0.5 ms is as good as none")
	}
}

func TestWeights(t *testing.T) {
	a, b := level(1, 100, 10), level(1, 120, 14)
	for weight, want := range map[float64]bool{1: false, 10: true} {
		g := Goal{"m": {Objectives: map[Metric]float64{Throughput: weight, LatencyP99: 1}, Weight: 1}}
		if got := g.Score(&b).Better(g.Score(&a)); got != want {
			t.Errorf("throughput %g to 1: %v", weight, got)
		}
	}
}

// run is one server of a variant in a round.
func run(id int, v Variant, round int, throughput float64) Run {
	return Run{ID: id, Variant: v, Round: round, Effort: 1, Levels: []Level{level(1, throughput, 5)}}
}

// rounds are those of the configuration as it is and of another one, by turns.
func rounds(v Variant, throughputs ...float64) []Run {
	var all []Run
	for i, x := range throughputs {
		all = append(all, run(i+1, []Variant{nil, v}[i%2], i/2+1, x))
	}
	return all
}

func TestVerdict(t *testing.T) {
	failed := Run{ID: 9, Variant: variant("64"), Effort: 1, Failure: "out of memory"}
	over := func(r Run) Run {
		r.Levels[0].Models["m"].Latency["p99"] = Stat{50, 0, 3}
		return r
	}
	late := func(r Run, p99 float64) Run {
		r.Levels[0].Models["m"].Latency["p99"] = Stat{p99, 1, 3}
		return r
	}
	v := variant("8")
	for _, c := range []struct {
		name   string
		runs   []Run
		winner bool
		text   string
	}{
		{"nothing", nil, false, "no configuration could be measured"},
		{"failures alone", []Run{failed}, false, "no configuration could be measured"},
		{"as it is", []Run{run(1, nil, 0, 100), run(2, v, 0, 90), failed}, false, "as it is is the best"},
		{"measured once", []Run{run(1, nil, 0, 100), run(2, v, 0, 190)}, false, "measured once"},
		{
			"within the noise", rounds(v, 100, 104, 95, 99, 104, 102), false, "within the noise",
		},
		{
			"a winner", rounds(v, 100, 150, 101, 151, 102, 149), true, "+48.5 %, beyond the noise",
		},
		{
			"the search does not count beside it",
			[]Run{run(1, nil, 1, 100), run(2, v, 0, 900), run(3, v, 1, 101), run(4, nil, 2, 101)},
			false, "measured once",
		},
		{"the one as it is cannot be measured", []Run{{ID: 1, Effort: 1, Failure: "no"}, run(2, v, 0, 10)}, true, "could not be measured"},
		{"the one as it is misses a limit", []Run{over(run(1, nil, 0, 100)), run(2, v, 0, 50)}, true, "keeps the limits"},
		{
			"the one as it is misses a limit in one server of two",
			[]Run{run(1, nil, 1, 100), run(2, v, 1, 150), late(run(3, nil, 2, 101), 400), run(4, v, 2, 151)},
			false, "within the noise",
		},
		{
			"the one as it is misses a limit in every server",
			[]Run{late(run(1, nil, 1, 100), 390), run(2, v, 1, 150), late(run(3, nil, 2, 101), 400), run(4, v, 2, 151)},
			true, "keeps the limits",
		},
		{"all miss it", []Run{over(run(1, nil, 0, 100)), over(run(2, v, 0, 50))}, false, "no configuration keeps the limits"},
	} {
		g := goal(Throughput, map[Metric]Limit{LatencyP99: {math.NaN(), 20}})
		got := g.Judge(g.Rank(Results(c.runs)))
		if got.Winner != c.winner || !strings.Contains(got.Text, c.text) {
			t.Errorf("%s: got %v, %q", c.name, got.Winner, got.Text)
		}
	}
}

func TestResultsTakeTheLongestMeasurement(t *testing.T) {
	short, long := run(1, nil, 0, 100), run(2, nil, 0, 50)
	long.Effort = 3
	got := Results([]Run{short, long})
	if len(got) != 1 || got[0].Runs != 1 || got[0].Levels[0].Models["m"].Throughput.Mean != 50 {
		t.Errorf("got %+v", got)
	}
}

func TestFront(t *testing.T) {
	g := goal(Throughput, nil)
	ranked := g.Rank(Results([]Run{
		{ID: 1, Levels: []Level{level(1, 100, 5), level(2, 150, 20)}},
		{ID: 2, Variant: variant("8"), Levels: []Level{level(1, 90, 6), level(2, 200, 10)}},
	}))
	var got []string
	for _, p := range g.Front(ranked, "m", LatencyP99) {
		got = append(got, fmt.Sprint(p.First, p.Level.Load.Concurrency))
	}
	if slices.Sort(got); !slices.Equal(got, []string{"1 1", "2 2"}) {
		t.Errorf("got %v", got)
	}
}

func TestKey(t *testing.T) {
	v := variant("8")
	v["a"] = []edit.Change{{Field: "parameters.x", Value: json.RawMessage(`"1"`)}}
	if got := v.Key(); got != `a:parameters.x="1";m:max_batch_size=8` || Variant(nil).Key() != "" || v.Clone().Key() != got {
		t.Error(got)
	}
}
