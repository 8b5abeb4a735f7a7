// Package trial owns what was measured of a configuration: numbers with their spread,
// under several loads, perhaps several times; what objectives and limits make of
// them, and whether one is really better than another. Open trial.go first, then
// goal.go.
package trial

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
)

// Variant is how the configurations of models are changed: the changes of each model,
// by its name. Nil is the configuration as it is.
type Variant map[string][]edit.Change

// Key names the variant; equal ones have equal keys.
func (v Variant) Key() string {
	parts := []string{}
	for _, model := range slices.Sorted(maps.Keys(v)) {
		for _, c := range v[model] {
			parts = append(parts, model+":"+c.String())
		}
	}
	return strings.Join(parts, ";")
}

// Run is one server with one variant, measured under each load.
type Run struct {
	ID      int     `json:"id"`
	Variant Variant `json:"variant,omitempty"`
	// Values are what the knobs stand at, by their names, as people read them.
	Values map[string]string `json:"values,omitempty"`
	Effort int               `json:"effort"`
	// Round is 0 in the search, and counts when the best are measured once more.
	Round   int     `json:"round,omitempty"`
	Levels  []Level `json:"levels,omitempty"`
	Failure string  `json:"failure,omitempty"`
	// LoadSeconds is how long the server took to be ready, Seconds all of it.
	LoadSeconds float64 `json:"load_seconds"`
	Seconds     float64 `json:"seconds"`
	// Cut says that the run was interrupted: it has what was measured until then.
	Cut bool `json:"cut,omitempty"`
}

// Load is what a server is under.
type Load struct {
	Concurrency int     `json:"concurrency,omitempty"`
	Rate        float64 `json:"request_rate,omitempty"`
	Batch       int     `json:"batch_size"`
}

// Level is what was measured under one load.
type Level struct {
	Load   Load               `json:"load"`
	Models map[string]*Number `json:"models,omitempty"`
	// Memory is the most bytes that the server and its workers had; 0 where that
	// cannot be seen.
	Memory float64 `json:"memory_bytes,omitempty"`
	// Free is the least memory that the machine had left meanwhile.
	Free    float64         `json:"free_bytes,omitempty"`
	GPUs    map[string]*GPU `json:"gpus,omitempty"`
	Failure string          `json:"failure,omitempty"`
}

// GPU is what the server's metrics said of one.
type GPU struct {
	Used        float64 `json:"used_bytes"`
	Total       float64 `json:"total_bytes"`
	Utilization float64 `json:"utilization"`
	Power       float64 `json:"power"`
}

// Number is what was measured of a model under a load. Throughput is inferences a
// second, times are milliseconds, CPU is the server's, in microseconds an inference.
type Number struct {
	Throughput Stat            `json:"throughput"`
	Latency    map[string]Stat `json:"latency"` // avg, p50, p90, p95, p99
	CPU        Stat            `json:"cpu_us"`
	// Times of a request, means.
	Wait     float64  `json:"response_wait_ms"`
	SendRecv float64  `json:"send_recv_ms"`
	Queue    float64  `json:"queue_ms"`
	Input    float64  `json:"compute_input_ms"`
	Infer    float64  `json:"compute_infer_ms"`
	Output   float64  `json:"compute_output_ms"`
	BatchLen float64  `json:"mean_batch"` // that the model executed
	Requests int64    `json:"requests"`
	Failed   int64    `json:"failed,omitempty"`
	Stable   bool     `json:"stable"`
	Notes    []string `json:"notes,omitempty"`
}

// Describe says what knobs stand at that stand elsewhere in base, the configuration as
// it is; "" if none does.
func Describe(values, base map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if was, ok := base[name]; !ok || was != values[name] {
			parts = append(parts, name+"="+values[name])
		}
	}
	return strings.Join(parts, " ")
}

// Result is all that is known of a variant.
type Result struct {
	Key     string
	Variant Variant
	Values  map[string]string
	Levels  []Level // pooled over the runs
	// Others are levels of the search under loads that were not measured again: they are
	// shown, and decide nothing.
	Others []Level
	// Runs is how many servers were measured; Confirmed how many of them beyond the search.
	Runs, Confirmed int
	First           int // the id of the first run
	Failure         string
}

// Results gathers runs by their variant, in the order of their first runs. Where a
// variant was measured again after the search, only those runs count: they were
// measured beside each other, and not chosen for having come out well.
func Results(runs []Run) []Result {
	var all []Result
	grouped := map[string][]*Run{}
	for i := range runs {
		r := &runs[i]
		key := r.Variant.Key()
		if grouped[key] == nil {
			all = append(all, Result{Key: key, Variant: r.Variant, Values: r.Values, First: r.ID})
		}
		grouped[key] = append(grouped[key], r)
	}
	for i := range all {
		gather(&all[i], grouped[all[i].Key])
	}
	return all
}

func gather(x *Result, runs []*Run) {
	var used, searched []*Run
	most := 0
	for _, r := range runs {
		if r.Failure != "" && x.Failure == "" {
			x.Failure = r.Failure
		}
		if len(r.Levels) == 0 {
			continue
		}
		if r.Round > 0 {
			x.Confirmed++
		}
		used = append(used, r)
		most = max(most, r.Effort)
	}
	if x.Confirmed > 0 {
		for _, r := range used {
			if r.Round == 0 && r.Effort == most {
				searched = append(searched, r)
			}
		}
		used = slices.DeleteFunc(used, func(r *Run) bool { return r.Round == 0 })
	} else { // longer measurements stand for shorter ones
		used = slices.DeleteFunc(used, func(r *Run) bool { return r.Effort < most })
	}
	x.Runs = len(used)
	x.Levels = levels(used)
	for _, l := range levels(searched) {
		if !slices.ContainsFunc(x.Levels, func(o Level) bool { return o.Load == l.Load }) {
			x.Others = append(x.Others, l)
		}
	}
}

// levels pools runs load by load.
func levels(used []*Run) (out []Level) {
	var loads []Load
	at := map[Load][]*Level{}
	for _, r := range used {
		for i := range r.Levels {
			l := &r.Levels[i]
			if at[l.Load] == nil {
				loads = append(loads, l.Load)
			}
			at[l.Load] = append(at[l.Load], l)
		}
	}
	for _, load := range loads {
		out = append(out, pool(at[load]))
	}
	return out
}

// All are the levels that count and those that are shown beside them, by their load.
func (x *Result) All() []Level {
	all := append(slices.Clone(x.Levels), x.Others...)
	slices.SortStableFunc(all, func(a, b Level) int {
		return cmp.Or(cmp.Compare(a.Load.Batch, b.Load.Batch), cmp.Compare(a.Load.Concurrency, b.Load.Concurrency),
			cmp.Compare(a.Load.Rate, b.Load.Rate))
	})
	return all
}

// pool makes one level of several under the same load.
func pool(all []*Level) Level {
	out := Level{Load: all[0].Load, Models: map[string]*Number{}, GPUs: all[0].GPUs}
	for _, l := range all {
		if l.Failure != "" && out.Failure == "" {
			out.Failure = l.Failure
		}
		out.Memory = max(out.Memory, l.Memory)
		if out.Free == 0 || l.Free > 0 && l.Free < out.Free {
			out.Free = l.Free
		}
	}
	for name := range all[0].Models {
		var numbers []*Number
		for _, l := range all {
			if n := l.Models[name]; n != nil {
				numbers = append(numbers, n)
			}
		}
		out.Models[name] = poolNumbers(numbers)
	}
	return out
}

func poolNumbers(all []*Number) *Number {
	out := *all[0]
	if len(all) == 1 {
		return &out
	}
	of := func(get func(*Number) Stat) Stat {
		var list []Stat
		for _, n := range all {
			list = append(list, get(n))
		}
		return Pool(list)
	}
	out.Throughput, out.CPU = of(func(n *Number) Stat { return n.Throughput }), of(func(n *Number) Stat { return n.CPU })
	out.Latency = map[string]Stat{}
	for name := range all[0].Latency {
		out.Latency[name] = of(func(n *Number) Stat { return n.Latency[name] })
	}
	out.Requests, out.Failed, out.Stable, out.Notes = 0, 0, true, nil
	for _, n := range all {
		out.Requests += n.Requests
		out.Failed += n.Failed
		out.Stable = out.Stable && n.Stable
		for _, note := range n.Notes {
			if !slices.Contains(out.Notes, note) {
				out.Notes = append(out.Notes, note)
			}
		}
	}
	return &out
}

// Clone returns a copy, for a variant that is to be changed.
func (v Variant) Clone() Variant {
	text, _ := json.Marshal(v) //nolint:errchkjson // changes are JSON themselves
	var c Variant
	_ = json.Unmarshal(text, &c) // what has just been written
	return c
}
