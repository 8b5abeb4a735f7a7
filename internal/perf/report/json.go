package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
)

// document is a report as JSON. Times are microseconds, unless their name says
// nanoseconds; what could not be seen is left out.
type document struct {
	Generator string  `json:"generator"`
	Time      string  `json:"time"`
	Model     string  `json:"model"`
	Version   string  `json:"model_version,omitempty"`
	Service   string  `json:"service_kind"`
	Protocol  string  `json:"protocol,omitempty"`
	URL       string  `json:"url,omitempty"`
	Batch     int     `json:"batch_size"`
	Mode      string  `json:"mode"`
	Results   []entry `json:"results"`
}

// entry is what was measured at one load.
type entry struct {
	Load         float64              `json:"load"`
	Inferences   float64              `json:"inferences_per_second"`
	Responses    *float64             `json:"responses_per_second,omitempty"`
	Requests     int64                `json:"requests"`
	Failed       int64                `json:"failed"`
	Errors       []measure.ErrorCount `json:"errors,omitempty"`
	Delayed      int64                `json:"delayed,omitempty"`
	Stable       bool                 `json:"stable"`
	WithinLimit  bool                 `json:"within_latency_threshold"`
	Cut          string               `json:"cut_short,omitempty"`
	Notes        []string             `json:"notes,omitempty"`
	Latency      latency              `json:"latency_us"`
	Client       clientPart           `json:"client_us"`
	ClientCPU    *float64             `json:"client_cpu_us_per_request,omitempty"`
	ServerCPU    *float64             `json:"server_cpu_us_per_request,omitempty"`
	Server       []serverPart         `json:"server,omitempty"`
	Histogram    []bar                `json:"histogram,omitempty"`
	TimeLine     []moment             `json:"time_line,omitempty"`
	BeganSeconds float64              `json:"began_seconds"`
	Seconds      float64              `json:"measured_seconds"`
}

type latency struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"standard_deviation"`
	Min       float64 `json:"min"`
	P50       float64 `json:"p50"`
	P90       float64 `json:"p90"`
	P95       float64 `json:"p95"`
	P99       float64 `json:"p99"`
	P999      float64 `json:"p99.9"`
	Max       float64 `json:"max"`
}

type clientPart struct {
	Send    int64 `json:"send"`
	Wait    int64 `json:"response_wait"`
	Receive int64 `json:"receive"`
}

type serverPart struct {
	Model      string `json:"model"`
	Version    string `json:"version"`
	Requests   int64  `json:"requests"`
	Inferences int64  `json:"inferences"`
	Executions int64  `json:"executions"`
	Latency    int64  `json:"latency_us"`
	Queue      int64  `json:"queue_us"`
	Input      int64  `json:"compute_input_us"`
	Infer      int64  `json:"compute_infer_us"`
	Output     int64  `json:"compute_output_us"`
	Hits       int64  `json:"cache_hits"`
	Misses     int64  `json:"cache_misses"`
}

type moment struct {
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"requests_per_second"`
	Failures float64 `json:"failures_per_second"`
	Mean     int64   `json:"mean_latency_us"`
}

// JSON writes the results in a form of our own.
func (r *Run) JSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(r.document())
}

func (r *Run) document() *document {
	o := r.Options
	d := &document{
		Generator: "neso perf " + r.Version, Time: r.Time.UTC().Format(time.RFC3339), Model: o.Model, Version: o.Version,
		Service: o.Kind, Batch: o.Batch, Mode: modeName(o.Mode), Results: []entry{},
	}
	if o.Kind != "triton_c_api" {
		d.Protocol, d.URL = o.Protocol, o.URL
	}
	for i := range r.Results {
		d.Results = append(d.Results, r.entry(&r.Results[i]))
	}
	return d
}

func modeName(m options.Mode) string {
	return [...]string{"concurrency", "request_rate", "request_intervals", "periodic_concurrency"}[m]
}

func (r *Run) entry(x *Result) entry {
	w, t := x.Window, timesOf(x.Window)
	e := entry{
		Load: x.Load, Inferences: r.Inferences(x), Requests: w.Count, Failed: w.Failed(), Errors: w.Errors, Delayed: w.Delayed, Stable: x.Stable,
		WithinLimit: x.Met, Cut: x.Cut, Notes: x.Notes, Latency: latencyOf(w), Client: clientPart{t.send, t.wait, t.receive},
		Histogram: bars(w), BeganSeconds: x.Began, Seconds: w.Seconds(),
	}
	if r.decoupled() {
		rate := float64(w.Responses) / max(w.Seconds(), 1e-9)
		e.Responses = &rate
	}
	if w.Count > 0 && w.ClientCPU >= 0 && r.apart() {
		cpu := w.ClientCPU * 1e6 / float64(w.Count)
		e.ClientCPU = &cpu
		if w.ServerCPU >= 0 {
			cpu := w.ServerCPU * 1e6 / float64(w.Count)
			e.ServerCPU = &cpu
		}
	}
	for i := range w.Server {
		c := &w.Server[i]
		p := phasesOf(c)
		e.Server = append(e.Server, serverPart{
			Model: measure.Plain(c.Name), Version: measure.Plain(c.Version), Requests: c.Phases["success"].Count, Inferences: c.Inferences,
			Executions: c.Executions, Latency: p.success, Queue: p.queue, Input: p.input, Infer: p.infer, Output: p.output,
			Hits: c.Phases["cache_hit"].Count, Misses: c.Phases["cache_miss"].Count,
		})
	}
	for _, k := range x.Ticks {
		e.TimeLine = append(e.TimeLine, moment{k.Seconds, k.Rate, k.Failures, us(k.MeanNS)})
	}
	return e
}

// apart reports whether client and server are processes of their own.
func (r *Run) apart() bool { return r.Options.Kind != "triton_c_api" }

func latencyOf(w *measure.Window) latency {
	if w.Count == 0 {
		return latency{}
	}
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	at := func(p float64) float64 { return us(w.Histogram.ValueAtPercentile(p)) }
	return latency{
		us(w.Mean()), us(w.Deviation()), us(w.Histogram.Min()), at(50), at(90), at(95), at(99), at(99.9), us(w.Histogram.Max()),
	}
}
