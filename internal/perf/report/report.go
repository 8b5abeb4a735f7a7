// Package report owns what a run of the load generator says: the text on the
// console and the CSV and JSON files in perf_analyzer's form, and reports of our own
// with plots. Open report.go first, then console.go.
package report

import (
	"strconv"
	"time"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/target"
)

// Result is what was measured at one load.
type Result struct {
	// Load is requests in flight, or a second.
	Load float64
	// Window has the last windows added up, Windows all of them.
	Window  *measure.Window
	Windows []*measure.Window
	Stable  bool
	Met     bool // the limit of latency
	Ticks   []Tick
	// Began is when the first window did, in seconds since the run began.
	Began float64
	GPU   GPU
	// Notes say what keeps the numbers from being the server's alone.
	Notes []string
	// Cut says that the measurement was ended early, and why.
	Cut string
}

// Tick is a moment of a measurement: what was answered since the one before.
type Tick struct {
	Seconds float64 // since the first window began
	Rate    float64 // answers a second
	MeanNS  int64
	// Failures a second.
	Failures float64
}

// GPU is what the server's metrics say of its GPUs, by their names.
type GPU struct {
	Utilization, Power, UsedBytes, TotalBytes map[string]float64
}

// NewGPU returns one that knows of none.
func NewGPU() GPU {
	return GPU{map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]float64{}}
}

// Run is all there is to report.
type Run struct {
	Options *options.Options
	Model   *target.Model
	Results []Result
	Version string
	// Processors is how many the generator may use, 0 if that is not known.
	Processors int
	// Epoch is the wall clock's time of drive.Now's zero in nanoseconds since 1970.
	Epoch int64
	// Time is when the run began.
	Time time.Time
}

// Latency is what decides about r, in nanoseconds.
func (r *Run) Latency(x *Result) int64 { return x.Window.Latency(r.Options.Percentile) }

// Inferences is how many inferences a second x is.
func (r *Run) Inferences(x *Result) float64 {
	return x.Window.Rate() * float64(max(1, r.Options.Batch))
}

// percentiles are those that are reported.
func (r *Run) percentiles() []int {
	all := []int{50, 90, 95, 99}
	p := r.Options.Percentile
	if p <= 0 {
		return all
	}
	for i, q := range all {
		if p == q {
			return all
		}
		if p < q {
			return append(all[:i:i], append([]int{p}, all[i:]...)...)
		}
	}
	return all
}

// sixDigits writes a number as the peer does: six significant digits.
func sixDigits(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }

// phases are the means of a model's phases in microseconds.
type phases struct {
	success, queue, input, infer, output, hit, miss int64
	compute, hitsAndMisses                          int64
}

func phasesOf(c *target.Counters) phases {
	us := func(name string) int64 { return c.Phases[name].MeanNS() / 1000 }
	p := phases{
		success: us("success"), queue: us("queue"), input: us("compute_input"), infer: us("compute_infer"), output: us("compute_output"),
		hit: us("cache_hit"), miss: us("cache_miss"),
	}
	sum := c.Phases["compute_input"].NS + c.Phases["compute_infer"].NS + c.Phases["compute_output"].NS
	n := c.Phases["compute_input"].Count
	p.compute = target.Duration{Count: n, NS: sum}.MeanNS() / 1000
	p.hitsAndMisses = target.Duration{
		Count: n + c.Phases["cache_hit"].Count, NS: sum + c.Phases["cache_hit"].NS + c.Phases["cache_miss"].NS,
	}.MeanNS() / 1000
	return p
}

func us(ns int64) int64 { return ns / 1000 }

// Mean times of the client, in microseconds.
type clientTimes struct{ service, send, receive, wait int64 }

func timesOf(w *measure.Window) clientTimes {
	n := max(w.Count, 1)
	t := clientTimes{service: us(w.Service / n), send: us(w.Send / n), receive: us(w.Receive / n)}
	t.wait = max(0, t.service-t.send-t.receive)
	return t
}
