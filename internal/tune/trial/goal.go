package trial

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/nesoserve/neso/internal/tune/search"
)

// Metric is a number of a level that objectives and limits are about, by the name
// that Model Analyzer has for it, or one of ours.
type Metric string

// The metrics. CPU and Memory are ours.
const (
	Throughput     Metric = "perf_throughput"
	LatencyAvg     Metric = "perf_latency_avg"
	LatencyP50     Metric = "perf_latency_p50"
	LatencyP90     Metric = "perf_latency_p90"
	LatencyP95     Metric = "perf_latency_p95"
	LatencyP99     Metric = "perf_latency_p99"
	Wait           Metric = "perf_client_response_wait"
	SendRecv       Metric = "perf_client_send_recv"
	Queue          Metric = "perf_server_queue"
	ComputeInput   Metric = "perf_server_compute_input"
	ComputeInfer   Metric = "perf_server_compute_infer"
	ComputeOutput  Metric = "perf_server_compute_output"
	CPU            Metric = "server_cpu_us"
	UsedRAM        Metric = "cpu_used_ram"
	AvailableRAM   Metric = "cpu_available_ram"
	GPUUsed        Metric = "gpu_used_memory"
	GPUFree        Metric = "gpu_free_memory"
	GPUUtilization Metric = "gpu_utilization"
	GPUPower       Metric = "gpu_power_usage"
)

// about is what is known of a metric.
type about struct {
	title  string
	higher bool // is better
	model  bool // each model has its own; else it is the server's
	value  func(l *Level, n *Number) (Stat, bool)
}

const megabyte = 1e6 // Model Analyzer's

var metrics = map[Metric]about{
	Throughput:     {"Throughput (infer/sec)", true, true, func(_ *Level, n *Number) (Stat, bool) { return n.Throughput, true }},
	LatencyAvg:     {"Avg Latency (ms)", false, true, latency("avg")},
	LatencyP50:     {"p50 Latency (ms)", false, true, latency("p50")},
	LatencyP90:     {"p90 Latency (ms)", false, true, latency("p90")},
	LatencyP95:     {"p95 Latency (ms)", false, true, latency("p95")},
	LatencyP99:     {"p99 Latency (ms)", false, true, latency("p99")},
	CPU:            {"Server CPU (us/infer)", false, true, func(_ *Level, n *Number) (Stat, bool) { return n.CPU, n.CPU.N > 0 }},
	UsedRAM:        {"RAM Usage (MB)", false, false, megabytes(func(l *Level) float64 { return l.Memory })},
	AvailableRAM:   {"RAM Available (MB)", true, false, megabytes(func(l *Level) float64 { return l.Free })},
	Wait:           {"Response Wait Time (ms)", false, true, phase(func(n *Number) float64 { return n.Wait })},
	SendRecv:       {"Request Send/Recv (ms)", false, true, phase(func(n *Number) float64 { return n.SendRecv })},
	Queue:          {"Server Queue time (ms)", false, true, phase(func(n *Number) float64 { return n.Queue })},
	ComputeInput:   {"Server Compute Input time (ms)", false, true, phase(func(n *Number) float64 { return n.Input })},
	ComputeInfer:   {"Server Compute Infer time (ms)", false, true, phase(func(n *Number) float64 { return n.Infer })},
	ComputeOutput:  {"Server Compute Output time (ms)", false, true, phase(func(n *Number) float64 { return n.Output })},
	GPUUsed:        {"GPU Memory Usage (MB)", false, false, gpus(func(g *GPU) float64 { return g.Used / megabyte }, false)},
	GPUFree:        {"GPU Memory Available (MB)", true, false, gpus(func(g *GPU) float64 { return (g.Total - g.Used) / megabyte }, false)},
	GPUUtilization: {"GPU Utilization (%)", true, false, gpus(func(g *GPU) float64 { return 100 * g.Utilization }, true)},
	GPUPower:       {"GPU Power Usage (W)", false, false, gpus(func(g *GPU) float64 { return g.Power }, false)},
}

func latency(name string) func(*Level, *Number) (Stat, bool) {
	return func(_ *Level, n *Number) (Stat, bool) { s, ok := n.Latency[name]; return s, ok }
}

// shortest is what a phase counts as that took no time that can be seen, in milliseconds:
// goals compare by ratios.
const shortest = 1e-3

func phase(of func(*Number) float64) func(*Level, *Number) (Stat, bool) {
	return func(_ *Level, n *Number) (Stat, bool) { return Stat{Mean: max(of(n), shortest), N: 1}, true }
}

func megabytes(of func(*Level) float64) func(*Level, *Number) (Stat, bool) {
	return func(l *Level, _ *Number) (Stat, bool) { return Stat{Mean: of(l) / megabyte, N: 1}, of(l) > 0 }
}

// gpus adds up, or takes the mean of, what all GPUs have.
func gpus(of func(*GPU) float64, mean bool) func(*Level, *Number) (Stat, bool) {
	return func(l *Level, _ *Number) (Stat, bool) {
		sum := 0.0
		for _, name := range slices.Sorted(maps.Keys(l.GPUs)) {
			sum += of(l.GPUs[name])
		}
		if mean && len(l.GPUs) > 0 {
			sum /= float64(len(l.GPUs))
		}
		return Stat{Mean: sum, N: 1}, len(l.GPUs) > 0
	}
}

// Metrics lists the names of all metrics.
func Metrics() []Metric { return slices.Sorted(maps.Keys(metrics)) }

// Known reports whether there is such a metric.
func (m Metric) Known() bool { _, ok := metrics[m]; return ok }

// Title is how tables call the metric.
func (m Metric) Title() string { return metrics[m].title }

// Higher reports whether more of it is better.
func (m Metric) Higher() bool { return metrics[m].higher }

// Of returns the metric of a model under a load; false where it could not be seen.
func (m Metric) Of(l *Level, model string) (Stat, bool) {
	a := metrics[m]
	n := l.Models[model]
	if a.value == nil || a.model && n == nil {
		return Stat{}, false
	}
	return a.value(l, n)
}

// Limit is what a metric must keep; NaN for no bound.
type Limit struct{ Min, Max float64 }

// Aim is what is wanted of one model.
type Aim struct {
	// Objectives are the metrics that count, each with its weight.
	Objectives map[Metric]float64
	Limits     map[Metric]Limit
	Weight     float64
}

// Goal is what is wanted of each model, by its name.
type Goal map[string]Aim

// Score says how well a load is served. The values of different levels can be compared:
// it is the sum of the logarithms of the objectives' metrics, weighted.
func (g Goal) Score(l *Level) search.Score {
	if l.Failure != "" {
		return search.Score{}
	}
	s := search.Score{OK: true}
	all := 0.0
	variance := 0.0
	for _, model := range slices.Sorted(maps.Keys(g)) {
		aim := g[model]
		total := 0.0
		for _, w := range aim.Objectives {
			total += w
		}
		for _, m := range slices.Sorted(maps.Keys(aim.Objectives)) {
			v, ok := m.Of(l, model)
			if !ok || v.Mean <= 0 || total == 0 {
				continue // what cannot be seen decides nothing
			}
			w := aim.Weight * aim.Objectives[m] / total
			if !m.Higher() {
				s.Value -= w * math.Log(v.Mean)
			} else {
				s.Value += w * math.Log(v.Mean)
			}
			variance += w * w * v.Relative() * v.Relative()
		}
		all += aim.Weight
		s.Excess += aim.excess(l, model)
	}
	if all > 0 {
		s.Value, variance = s.Value/all, variance/(all*all)
	}
	s.Noise = math.Sqrt(variance)
	return s
}

func (a Aim) excess(l *Level, model string) (sum float64) {
	for m, limit := range a.Limits {
		v, ok := m.Of(l, model)
		if !ok {
			continue
		}
		if !math.IsNaN(limit.Max) && v.Mean > limit.Max {
			sum += math.Log(v.Mean / math.Max(limit.Max, 1e-9))
		}
		if !math.IsNaN(limit.Min) && v.Mean < limit.Min {
			sum += math.Log(math.Max(limit.Min, 1e-9) / math.Max(v.Mean, 1e-9))
		}
	}
	return sum
}

// Best returns the level that serves the goal best; nil if none was measured.
func (g Goal) Best(levels []Level) (*Level, search.Score) {
	var best *Level
	var top search.Score
	for i := range levels {
		if s := g.Score(&levels[i]); s.OK && (best == nil || s.Better(top)) {
			best, top = &levels[i], s
		}
	}
	return best, top
}

// Ranked is a result with the level that it does best at.
type Ranked struct {
	Result
	Best  *Level // nil if nothing was measured
	Score search.Score
}

// Rank sorts results, the best first.
func (g Goal) Rank(results []Result) []Ranked {
	all := make([]Ranked, len(results))
	for i, r := range results {
		all[i] = Ranked{Result: r}
		all[i].Best, all[i].Score = g.Best(r.Levels)
	}
	confirmed := func(r *Ranked) bool { return r.Confirmed > 0 && r.Score.OK }
	slices.SortStableFunc(all, func(a, b Ranked) int {
		switch { // one that was chosen for having come out well has to do so again
		case confirmed(&a) && !confirmed(&b):
			return -1
		case confirmed(&b) && !confirmed(&a):
			return 1
		case a.Score.Better(b.Score):
			return -1
		case b.Score.Better(a.Score):
			return 1
		}
		return 0
	})
	return all
}

// Verdict is what the measurements allow to say of the best one.
type Verdict struct {
	Best, Base *Ranked // nil where nothing was measured
	// Winner says that the best one is better than the configuration as it is, beyond chance.
	Winner bool
	// Gain is by how much, as a share of what it was.
	Gain float64
	Text string
}

// Judge compares the first of the ranked results with the configuration as it is.
func (g Goal) Judge(ranked []Ranked) Verdict {
	v := Verdict{}
	for i := range ranked {
		if ranked[i].Key == "" && ranked[i].Best != nil {
			v.Base = &ranked[i]
		}
	}
	if len(ranked) == 0 || ranked[0].Best == nil {
		v.Text = "no configuration could be measured"
		return v
	}
	v.Best = simplest(ranked)
	switch {
	case v.Best.Score.Excess > 0:
		v.Text = "no configuration keeps the limits; the nearest is shown"
		return v
	case v.Base == nil:
		v.Winner = true
		v.Text = "the configuration as it is could not be measured; the best of the others is shown"
		return v
	case v.Best == v.Base:
		v.Text = "the configuration as it is is the best that was measured"
		return v
	case v.Base.Score.Excess > 0 && !g.misses(v.Base.Best):
		v.Text = "the configuration as it is misses the limits, but within the noise: no winner"
		return v
	case v.Base.Score.Excess > 0:
		v.Winner = true
		v.Gain = math.Expm1(v.Best.Score.Value - v.Base.Score.Value)
		v.Text = "the best configuration keeps the limits, and the one as it is does not"
		return v
	}
	difference := v.Best.Score.Value - v.Base.Score.Value
	v.Gain = math.Expm1(difference)
	a, b := v.Best.sample(), v.Base.sample()
	switch {
	case a.N < 2 || b.N < 2:
		v.Text = fmt.Sprintf("%+.1f %%, but measured once: whether that is more than noise is not known", 100*v.Gain)
	case Differ(a, b):
		v.Winner = true
		v.Text = fmt.Sprintf("%+.1f %%, beyond the noise (%d and %d servers, ±%.1f %% and ±%.1f %%)", 100*v.Gain, a.N, b.N,
			100*v.Best.Score.Noise, 100*v.Base.Score.Noise)
	default:
		v.Text = fmt.Sprintf("%+.1f %% is within the noise (±%.1f %% and ±%.1f %%): no winner", 100*v.Gain,
			100*v.Best.Score.Noise, 100*v.Base.Score.Noise)
	}
	return v
}

// misses reports whether a level misses a limit by more than chance explains. What was
// measured once is taken as it is.
func (g Goal) misses(l *Level) bool {
	for model, aim := range g {
		for m, limit := range aim.Limits {
			v, ok := m.Of(l, model)
			if !ok {
				continue
			}
			for _, bound := range []float64{limit.Min, limit.Max} {
				beyond := bound == limit.Max && v.Mean > bound || bound == limit.Min && v.Mean < bound // never of NaN
				if beyond && (v.N < 2 || v.Beyond(bound)) {
					return true
				}
			}
		}
	}
	return false
}

// sample is the score as numbers that differ, or do not.
func (r *Ranked) sample() Stat {
	return Stat{r.Score.Value, r.Score.Noise * math.Sqrt(float64(r.Runs)), r.Runs}
}

// simplest is, of those measured again that the first one does not beat beyond chance,
// the one that changes least.
func simplest(ranked []Ranked) *Ranked {
	best := &ranked[0]
	for i := range ranked {
		r := &ranked[i]
		good := r.Confirmed > 0 && r.Best != nil && r.Score.Excess == 0 && r.Runs > 1 && r.Key != ""
		if good && best.Key != "" && best.Runs > 1 && ranked[0].Score.Excess == 0 &&
			!Differ(r.sample(), ranked[0].sample()) && r.Variant.size() < best.Variant.size() {
			best = r
		}
	}
	return best
}

// size is how much a variant changes.
func (v Variant) size() int {
	n := 0
	for _, changes := range v {
		n += len(changes)
	}
	return n
}

// FrontLevel is a level of a result, by the result's first run.
type FrontLevel struct {
	First int
	Level Level
}

// Front are the levels that no other beats in throughput and in another metric, of which
// less is better, at once, over all results.
func (g Goal) Front(ranked []Ranked, model string, against Metric) []FrontLevel {
	type point struct {
		FrontLevel
		x, y float64
	}
	var all []point
	for i := range ranked {
		for _, l := range ranked[i].All() {
			t, ok := Throughput.Of(&l, model)
			c, seen := against.Of(&l, model)
			if l.Failure == "" && ok && seen {
				all = append(all, point{FrontLevel{ranked[i].First, l}, c.Mean, t.Mean})
			}
		}
	}
	var front []FrontLevel
	for _, p := range all {
		if !slices.ContainsFunc(all, func(q point) bool {
			return q.x <= p.x && q.y >= p.y && (q.x < p.x || q.y > p.y)
		}) {
			front = append(front, p.FrontLevel)
		}
	}
	return front
}

// OfModel reports whether each model has its own; else it is the server's.
func (m Metric) OfModel() bool { return metrics[m].model }
