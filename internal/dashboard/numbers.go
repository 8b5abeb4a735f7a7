package dashboard

import (
	"math"
	"strconv"
	"time"

	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
	"github.com/nesoserve/neso/internal/stats"
)

// row is what the page shows of one version: its state, and what took place in the
// last second. Rates are per second, times in milliseconds.
type row struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Namespace is the model's repository, with namespacing.
	Namespace string `json:"namespace,omitempty"`
	State     string `json:"state"`
	Reason    string `json:"reason,omitempty"`
	Backend   string `json:"backend,omitempty"`
	Instances int    `json:"instances"`
	Stuck     int    `json:"stuck,omitempty"`
	Restarts  uint64 `json:"restarts,omitempty"`
	Memory    uint64 `json:"memory,omitempty"`
	Pending   int64  `json:"pending"`
	// Total counts the requests since the version was loaded, Failed those of them that
	// failed.
	Total  uint64 `json:"total"`
	Failed uint64 `json:"failed"`
	*rates
}

// rates are nil while nothing takes place.
type rates struct {
	Requests   float64 `json:"requests"`
	Failures   float64 `json:"failures,omitempty"`
	Inferences float64 `json:"inferences"`
	// Busy is how many executions ran at a time.
	Busy float64 `json:"busy,omitempty"`
	// Batch is the mean size of the batches; Sizes how many there were, by the upper
	// bound of their size, and Closed why they were closed.
	Batch  float64            `json:"batch,omitempty"`
	Sizes  map[string]float64 `json:"sizes,omitempty"`
	Closed map[string]float64 `json:"closed,omitempty"`
	// Causes are failures by their reason.
	Causes map[string]float64 `json:"causes,omitempty"`
	// Edges are those of an ensemble along which something has gone.
	Edges  []edgeRate `json:"edges,omitempty"`
	Hits   float64    `json:"hits,omitempty"`
	Misses float64    `json:"misses,omitempty"`
	// The phases: the 50th, 90th and 99th percentile.
	Request *percentiles `json:"request,omitempty"`
	Queue   *percentiles `json:"queue,omitempty"`
	Input   *percentiles `json:"input,omitempty"`
	Infer   *percentiles `json:"infer,omitempty"`
	Output  *percentiles `json:"output,omitempty"`
	First   *percentiles `json:"first,omitempty"`
}

// edgeRate is how often a tensor has gone from one step to another, per second; -1 is
// the request, and the response.
type edgeRate struct {
	From   int     `json:"from"`
	To     int     `json:"to"`
	Tensor string  `json:"tensor"`
	Rate   float64 `json:"rate"`
}

// edgesOf compares two looks at the edges of one version of an ensemble.
func edgesOf(before, now []ensemble.Passed, seconds float64) (all []edgeRate) {
	if len(before) != len(now) || seconds <= 0 {
		return nil
	}
	for i, e := range now {
		if n := e.Count - min(e.Count, before[i].Count); n > 0 {
			all = append(all, edgeRate{e.From, e.To, e.Tensor, rounded(float64(n) / seconds)})
		}
	}
	return all
}

type percentiles [3]float64

var quantiles = [3]float64{0.5, 0.9, 0.99}

// percentilesOf are those of what a histogram has counted between two looks; nil
// where that is nothing.
func percentilesOf(before, now *stats.HistogramSnapshot) *percentiles {
	added := now.Since(*before)
	var p percentiles
	for i, q := range quantiles {
		ns, ok := added.Quantile(q)
		if !ok {
			return nil
		}
		p[i] = rounded(ns / 1e6)
	}
	return &p
}

// ratesOf compares two looks some seconds apart; nil where nothing took place.
func ratesOf(before, now *stats.Snapshot, seconds float64) *rates {
	if seconds <= 0 {
		return nil
	}
	per := func(a, b uint64) float64 { return rounded(float64(b-min(a, b)) / seconds) }
	r := &rates{
		Requests: per(before.Success.Count+before.Fail.Count, now.Success.Count+now.Fail.Count),
		Failures: per(before.Fail.Count, now.Fail.Count), Inferences: per(before.InferenceCount, now.InferenceCount),
		Hits: per(before.CacheHit.Count, now.CacheHit.Count), Misses: per(before.CacheMiss.Count, now.CacheMiss.Count),
	}
	executions := now.ExecutionCount - min(before.ExecutionCount, now.ExecutionCount)
	if r.Requests == 0 && executions == 0 && r.Inferences == 0 {
		return nil
	}
	if executions > 0 {
		sizes := now.BatchSize.Since(before.BatchSize)
		r.Batch = rounded(float64(sizes.Sum) / float64(max(1, sizes.Count())))
		r.Sizes = map[string]float64{}
		for i, n := range sizes.Counts {
			if n == 0 {
				continue
			}
			upTo := "more"
			if i < len(sizes.Bounds) {
				upTo = strconv.FormatInt(sizes.Bounds[i], 10)
			}
			r.Sizes[upTo] = rounded(float64(n) / seconds)
		}
	}
	r.Closed = changes(before.BatchesClosed, now.BatchesClosed, seconds)
	r.Causes = changes(before.FailuresByCause, now.FailuresByCause, seconds)
	for _, phase := range []struct {
		to            **percentiles
		before, after *stats.HistogramSnapshot
	}{
		{&r.Request, &before.RequestTime, &now.RequestTime},
		{&r.Queue, &before.QueueTime, &now.QueueTime},
		{&r.Input, &before.InputTime, &now.InputTime},
		{&r.Infer, &before.InferTime, &now.InferTime},
		{&r.Output, &before.OutputTime, &now.OutputTime},
		{&r.First, &before.FirstResponse, &now.FirstResponse},
	} {
		*phase.to = percentilesOf(phase.before, phase.after)
	}
	return r
}

// changes are the counters that have grown, per second; nil for none.
func changes[K interface {
	comparable
	String() string
}](before, now map[K]uint64, seconds float64) map[string]float64 {
	var all map[string]float64
	for k, n := range now {
		if n > before[k] {
			if all == nil {
				all = map[string]float64{}
			}
			all[k.String()] = rounded(float64(n-before[k]) / seconds)
		}
	}
	return all
}

// rounded has four digits that mean something: more would only be more to send.
func rounded(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, math.Max(0, 3-math.Floor(math.Log10(math.Abs(v)))))
	return math.Round(v*scale) / scale
}

// followed is a version as it was at the last look.
type followed struct {
	numbers  *stats.Version // whose activity and totals those are
	activity stats.Activity
	totals   stats.Snapshot
	edges    []ensemble.Passed
	at       time.Time // of totals
	row      row       // without rates
	json     []byte
	seen     uint64 // the look that has seen it last
	busy     bool   // json has rates
}

// standingRow is what is known of a version without its numbers.
func standingRow(v *engine.Standing) row {
	r := row{Name: v.Name, Namespace: v.Namespace, State: v.State, Reason: v.Reason}
	if v.Version.Version > 0 {
		r.Version = strconv.FormatInt(v.Version.Version, 10)
	}
	if v.Model == nil {
		return r
	}
	h := v.Model.Health()
	r.Instances, r.Stuck = h.Instances, h.Stuck
	if c := v.Model.Config(); c.Ensemble != nil {
		r.Backend = "ensemble"
	} else {
		r.Backend = c.Backend
	}
	return r
}
