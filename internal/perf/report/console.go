package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/target"
)

// Settings prints what will be measured, and how.
func (r *Run) Settings(out io.Writer) {
	o := r.Options
	p := func(format string, args ...any) { fmt.Fprintf(out, "  "+format+"\n", args...) }
	fmt.Fprintln(out, "*** Measurement Settings ***")
	if o.Kind != "openai" {
		p("Batch size: %d", o.Batch)
	}
	p("Service Kind: %s", strings.ToUpper(o.Kind))
	if o.Warmup > 0 {
		p("Sending %d warmup request%s", o.Warmup, plural(o.Warmup))
	}
	if o.RequestCount > 0 {
		p("Sending %d benchmark request%s", o.RequestCount, plural(o.RequestCount))
	} else {
		r.windowSettings(p)
	}
	limit := func(what, unit string) {
		if o.Load.End != o.Load.Start { // of a single load the peer says nothing
			p("Latency limit: %d msec", o.LatencyLimit.Milliseconds())
			if o.Load.End != 0 {
				p("%s limit: %s %s", what, sixDigits(max(o.Load.Start, o.Load.End)), unit)
			}
		}
	}
	switch o.Mode {
	case options.Closed:
		limit("Concurrency", "concurrent requests")
	case options.Rate:
		limit("Request Rate", "requests per seconds")
		if o.Distribution == "poisson" {
			p("Using poisson distribution on request generation")
		} else {
			p("Using uniform distribution on request generation")
		}
	default:
	}
	if o.BinarySearch {
		p("Using Binary Search algorithm")
	}
	p("Using %s calls for inference", map[bool]string{true: "asynchronous", false: "synchronous"}[o.Async])
	if r.Model != nil && r.Model.Decoupled {
		p("Detected decoupled model, using the first response for measuring latency")
	}
	fmt.Fprintln(out)
}

func (r *Run) windowSettings(p func(string, ...any)) {
	o := r.Options
	mode := "time_windows"
	if o.CountWindows {
		mode = "count_windows"
	}
	p("Using %q mode for stabilization", mode)
	decides := "average latency"
	if o.Percentile > 0 {
		decides = fmt.Sprintf("p%d latency", o.Percentile)
	}
	p("Stabilizing using %s and throughput", decides)
	if o.CountWindows {
		p("Minimum number of samples in each window: %d", o.WindowRequests)
	} else {
		p("Measurement window: %d msec", o.Interval.Milliseconds())
	}
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// Begin prints the heading of a load.
func (r *Run) Begin(out io.Writer, load float64) {
	switch r.Options.Mode {
	case options.Closed:
		fmt.Fprintf(out, "Request concurrency: %s\n", sixDigits(load))
	case options.Periodic:
		fmt.Fprintln(out, "Periodic concurrency")
	default:
		fmt.Fprintf(out, "Request Rate: %s inference requests per seconds\n", sixDigits(load))
	}
}

// Pass prints one window, for who asked for more.
func (r *Run) Pass(out io.Writer, n int, w *measure.Window) {
	fmt.Fprintf(out, "  Pass [%d] throughput: %s infer/sec. ", n, sixDigits(w.Rate()*float64(max(1, r.Options.Batch))))
	if p := r.Options.Percentile; p > 0 {
		fmt.Fprintf(out, "p%d latency: %d usec\n", p, us(w.Latency(p)))
		return
	}
	fmt.Fprintf(out, "Avg latency: %d usec (std %d usec). \n", us(w.Mean()), us(w.Deviation()))
}

// Result prints what was measured at a load.
func (r *Run) Result(out io.Writer, x *Result) {
	fmt.Fprintln(out, "  Client: ")
	r.client(out, x)
	if w := x.Window; r.Model != nil && r.Model.Statistics && len(w.Server) > 0 {
		fmt.Fprintln(out, "  Server: ")
		r.server(out, &w.Server[0], w.Server[1:], "  ")
		if len(w.Server) > 1 {
			fmt.Fprintln(out, "  Composing models: ")
			for i := range w.Server[1:] {
				c := &w.Server[i+1]
				fmt.Fprintf(out, "  %s, version: %s\n", measure.Plain(c.Name), measure.Plain(c.Version))
				r.server(out, c, nil, "    ")
			}
		}
	}
	if r.Options.CollectMetrics {
		x.GPU.print(out)
	}
	for _, n := range x.Notes {
		fmt.Fprintln(out, "  [WARNING] "+n)
	}
	fmt.Fprintln(out)
}

func (r *Run) client(out io.Writer, x *Result) {
	w := x.Window
	p := func(format string, args ...any) { fmt.Fprintf(out, "    "+format+"\n", args...) }
	p("Request count: %d", w.Count)
	for _, e := range w.Errors {
		p("Failed: %d requests: %s", e.Count, strings.TrimSuffix(e.Kind+": "+e.Text, ": "))
	}
	if w.Count == 0 {
		return
	}
	if late := 100 * float64(w.Delayed) / float64(w.Count); late > 1 {
		p("Avg send request rate: %.2f infer/sec", r.Inferences(x))
		p("[WARNING] The desired request rate was not kept. %.3g%% of the requests were delayed; latency counts from when they were due.", late)
	}
	if r.Model != nil && r.Model.Sequence {
		p("Sequence count: %d (%s seq/sec)", w.Sequences, sixDigits(float64(w.Sequences)/w.Seconds()))
	}
	p("Throughput: %s infer/sec", sixDigits(r.Inferences(x)))
	if r.decoupled() {
		p("Response Throughput: %s infer/sec", sixDigits(float64(w.Responses)/w.Seconds()))
	}
	if r.Options.Verbose > 0 && w.ClientCPU >= 0 && r.apart() && r.Processors > 0 {
		p("Avg client overhead: %.2f%%", 100*min(1, w.ClientCPU/max(w.Seconds(), 1e-9)/float64(r.Processors)))
	}
	if r.Options.Percentile == -1 {
		p("Avg latency: %d usec (standard deviation %d usec)", us(w.Mean()), us(w.Deviation()))
	}
	for _, q := range r.percentiles() {
		p("p%d latency: %d usec", q, us(w.Latency(q)))
	}
	p("p99.9 latency: %d usec, max %d usec", us(w.Histogram.ValueAtPercentile(99.9)), us(w.Histogram.Max()))
	r.library(p, w)
	r.cpu(p, w)
}

func (r *Run) decoupled() bool { return r.Model != nil && r.Model.Decoupled }

// library prints where the time of a request went on our side.
func (r *Run) library(p func(string, ...any), w *measure.Window) {
	t := timesOf(w)
	if r.decoupled() || r.Options.Kind == "triton_c_api" {
		return
	}
	switch grpc, verbose := r.Options.Protocol == "grpc", r.Options.Verbose > 0; {
	case grpc && verbose:
		p("Avg gRPC time: %d usec (marshal %d usec + response wait %d usec + unmarshal %d usec)", t.service, t.send, t.wait, t.receive)
	case grpc:
		p("Avg gRPC time: %d usec ((un)marshal request/response %d usec + response wait %d usec)", t.service, t.send+t.receive, t.wait)
	case verbose:
		p("Avg HTTP time: %d usec (send %d usec + response wait %d usec + receive %d usec)", t.service, t.send, t.wait, t.receive)
	default:
		p("Avg HTTP time: %d usec (send/recv %d usec + response wait %d usec)", t.service, t.send+t.receive, t.wait)
	}
}

// cpu prints processor time, where it can be seen.
func (r *Run) cpu(p func(string, ...any), w *measure.Window) {
	if w.ClientCPU < 0 || w.Count == 0 {
		return
	}
	if !r.apart() {
		p("CPU: %s usec a request, of generator and server", sixDigits(round1(w.ClientCPU*1e6/float64(w.Count))))
		return
	}
	text := fmt.Sprintf("CPU: client %s usec a request", sixDigits(round1(w.ClientCPU*1e6/float64(w.Count))))
	if w.ServerCPU >= 0 {
		text += fmt.Sprintf(", server %s usec", sixDigits(round1(w.ServerCPU*1e6/float64(w.Count))))
	}
	p("%s", text)
}

func round1(f float64) float64 { return float64(int64(f*10+0.5)) / 10 }

// server prints the statistics of one model, and of where time went in the models that
// it is made of, if it is.
func (r *Run) server(out io.Writer, c *target.Counters, within []target.Counters, ident string) {
	p := func(format string, args ...any) { fmt.Fprintf(out, ident+"  "+format+"\n", args...) }
	count := c.Phases["success"].Count
	if count == 0 {
		p("Request count: 0")
		return
	}
	p("Inference count: %d", c.Inferences)
	p("Execution count: %d", c.Executions)
	if r.Model.Cache {
		p("Cache hit count: %d", c.Phases["cache_hit"].Count)
		p("Cache miss count: %d", c.Phases["cache_miss"].Count)
	}
	p("Successful request count: %d", count)
	t := phasesOf(c)
	if len(within) > 0 {
		r.composed(p, t.success, within)
		return
	}
	if r.Model.Cache {
		p("Avg request latency: %d usec (overhead %d usec + queue %d usec + cache hit/miss %d usec)", t.success,
			max(0, t.success-t.queue-t.hitsAndMisses), t.queue, t.hitsAndMisses)
		p("  Average Cache Hit Latency: %d usec", t.hit)
		p("  Average Cache Miss Latency: %d usec (cache lookup/insertion %d usec + compute input %d usec + compute infer %d usec + "+
			"compute output %d usec)", t.miss+t.compute, t.miss, t.input, t.infer, t.output)
		return
	}
	p("Avg request latency: %d usec (overhead %d usec + queue %d usec + compute input %d usec + compute infer %d usec + "+
		"compute output %d usec)", t.success, max(0, t.success-t.queue-t.compute), t.queue, t.input, t.infer, t.output)
}

// composed prints where the time of a request went in the models that it passed: the
// sums of their means.
func (r *Run) composed(p func(string, ...any), latency int64, within []target.Counters) {
	var queue, compute, hit, miss, either int64
	for i := range within {
		if slices.Contains(r.Model.Nested, within[i].Name) {
			continue // its own models are there, too
		}
		t := phasesOf(&within[i])
		queue, compute, hit, miss, either = queue+t.queue, compute+t.compute, hit+t.hit, miss+t.miss, either+t.hitsAndMisses
	}
	if !r.Model.Cache {
		p("Avg request latency: %d usec (overhead %d usec + queue %d usec + compute %d usec)", latency,
			max(0, latency-queue-compute), queue, compute)
		return
	}
	p("Avg request latency: %d usec (overhead %d usec + queue %d usec + cache hit/miss %d usec)", latency,
		max(0, latency-queue-either), queue, either)
	p("  Average Cache Hit Latency: %d usec", hit)
	p("  Average Cache Miss Latency: %d usec", miss+compute)
}

// Summary prints a line a load.
func (r *Run) Summary(out io.Writer) {
	if len(r.Results) == 0 || r.Options.Mode == options.Periodic {
		return
	}
	what := "Average"
	if r.Options.Percentile > 0 {
		what = fmt.Sprintf("p%d", r.Options.Percentile)
	}
	fmt.Fprintf(out, "Inferences/Second vs. Client %s Batch Latency\n", what)
	for i := range r.Results {
		x := &r.Results[i]
		name := "Request Rate"
		if r.Options.Mode == options.Closed {
			name = "Concurrency"
		}
		fmt.Fprintf(out, "%s: %s, throughput: %s infer/sec, latency %d usec%s\n", name, sixDigits(x.Load), sixDigits(r.Inferences(x)),
			us(r.Latency(x)), x.remark())
	}
}

func (x *Result) remark() string {
	var all []string
	if !x.Stable {
		all = append(all, "not stable")
	}
	if n := x.Window.Failed(); n > 0 {
		all = append(all, fmt.Sprintf("%d failed", n))
	}
	if x.Cut != "" {
		all = append(all, x.Cut)
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

func (g *GPU) print(out io.Writer) {
	fmt.Fprintln(out, "  Server Prometheus Metrics: ")
	list := func(title string, values map[string]float64, scale float64, unit string) {
		fmt.Fprintf(out, "    %s:\n", title)
		for _, name := range sortedKeys(values) {
			fmt.Fprintf(out, "      %s : %s%s\n", measure.Plain(name), sixDigits(values[name]*scale), unit)
		}
	}
	list("Avg GPU Utilization", g.Utilization, 100, "%")
	list("Avg GPU Power Usage", g.Power, 1, " watts")
	list("Max GPU Memory Usage", g.UsedBytes, 1, " bytes")
	list("Total GPU Memory", g.TotalBytes, 1, " bytes")
}

func sortedKeys(m map[string]float64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
