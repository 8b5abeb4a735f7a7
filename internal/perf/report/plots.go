package report

import (
	"fmt"
	"math"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/plot"
)

// mostHistograms bounds the loads whose latencies have a picture of their own.
const mostHistograms = 12

// Charts are the pictures of a run: throughput and latency over the load where there
// are several, both over the time of the run, and how the latencies of each load
// are spread.
func (r *Run) Charts() []plot.Chart {
	var all []plot.Chart
	if len(r.Results) > 1 {
		all = append(all, r.throughput(), r.latencies())
	}
	all = append(all, r.timeLine()...)
	for i := range r.Results[:min(len(r.Results), mostHistograms)] {
		if c, ok := r.histogram(&r.Results[i]); ok {
			all = append(all, c)
		}
	}
	return all
}

// loadLabel is what loads are counted in.
func (r *Run) loadLabel() string {
	switch r.Options.Mode {
	case options.Closed:
		return "concurrency"
	case options.Periodic:
		return "requests"
	default:
		return "requests a second, as asked for"
	}
}

func (r *Run) throughput() plot.Chart {
	line := plot.Series{Name: "inferences a second", Dots: true}
	for i := range r.Results {
		line.Points = append(line.Points, plot.Point{X: r.Results[i].Load, Y: r.Inferences(&r.Results[i])})
	}
	return plot.Chart{
		Title: "Throughput", X: plot.Axis{Label: r.loadLabel()}, Y: plot.Axis{Label: "inferences a second"}, Series: []plot.Series{line},
		NoLegend: true,
	}
}

const nsInMS = 1e6

func (r *Run) latencies() plot.Chart {
	c := plot.Chart{Title: "Latency", X: plot.Axis{Label: r.loadLabel()}, Y: plot.Axis{Label: "ms"}}
	add := func(name string, value func(*measure.Window) int64) {
		line := plot.Series{Name: name, Dots: true}
		for i := range r.Results {
			line.Points = append(line.Points, plot.Point{X: r.Results[i].Load, Y: float64(value(r.Results[i].Window)) / nsInMS})
		}
		c.Series = append(c.Series, line)
	}
	for _, p := range r.percentiles() {
		add(fmt.Sprintf("p%d", p), func(w *measure.Window) int64 { return w.Histogram.ValueAtPercentile(float64(p)) })
	}
	add("mean", (*measure.Window).Mean)
	return c
}

// timeLine is the whole run, with a rule where a load begins.
func (r *Run) timeLine() []plot.Chart {
	rate, latency := plot.Series{Name: "answers a second"}, plot.Series{Name: "mean latency"}
	failures := plot.Series{Name: "failures a second"}
	var rules []plot.Rule
	failed := false
	for i := range r.Results {
		x := &r.Results[i]
		if len(r.Results) > 1 && len(r.Results) <= mostHistograms {
			rules = append(rules, plot.Rule{X: x.Began, Text: sixDigits(x.Load)})
		}
		for _, k := range x.Ticks {
			at := x.Began + k.Seconds
			rate.Points = append(rate.Points, plot.Point{X: at, Y: k.Rate})
			failures.Points = append(failures.Points, plot.Point{X: at, Y: k.Failures})
			failed = failed || k.Failures > 0
			if k.Rate > 0 {
				latency.Points = append(latency.Points, plot.Point{X: at, Y: float64(k.MeanNS) / nsInMS})
			}
		}
	}
	if len(rate.Points) == 0 {
		return nil
	}
	seconds := plot.Axis{Label: "seconds of the run"}
	over := plot.Chart{
		Title: "Throughput over time", X: seconds, Y: plot.Axis{Label: "requests a second"}, Series: []plot.Series{rate},
		Rules: rules, NoLegend: !failed,
	}
	if failed {
		over.Series = append(over.Series, failures)
	}
	return []plot.Chart{over, {
		Title: "Mean latency over time", X: seconds, Y: plot.Axis{Label: "ms"}, Series: []plot.Series{latency}, Rules: rules, NoLegend: true,
	}}
}

// bar is how many latencies lie from From to To, in nanoseconds.
type bar struct {
	From  int64 `json:"from_ns"`
	To    int64 `json:"to_ns"`
	Count int64 `json:"count"`
}

// barsInAll is how many bars a histogram has at most.
const barsInAll = 60

// bars divides latencies into ranges of one ratio.
func bars(w *measure.Window) []bar {
	if w.Histogram.TotalCount() == 0 {
		return nil
	}
	low, high := float64(max(1, w.Histogram.Min())), float64(max(1, w.Histogram.Max()))
	ratio := math.Pow(high/low, 1.0/barsInAll)
	ratio = max(ratio, 1.005) // the histogram knows no more
	all := make([]bar, 1, barsInAll)
	edge := func(i int) int64 { return int64(low * math.Pow(ratio, float64(i))) }
	all[0] = bar{From: edge(0), To: max(edge(1), edge(0)+1)}
	for _, d := range w.Histogram.Distribution() {
		if d.Count == 0 {
			continue
		}
		for len(all) < barsInAll && d.From >= all[len(all)-1].To && float64(d.From) < high {
			from := all[len(all)-1].To
			all = append(all, bar{From: from, To: max(edge(len(all)+1), from+1)})
		}
		all[len(all)-1].Count += d.Count
	}
	all[len(all)-1].To = max(all[len(all)-1].To, int64(high))
	return all
}

func (r *Run) histogram(x *Result) (plot.Chart, bool) {
	c := plot.Chart{
		Title: "Latencies at " + r.loadLabel() + " " + sixDigits(x.Load), X: plot.Axis{Label: "ms", Log: true}, Y: plot.Axis{Label: "requests"},
		NoLegend: true,
	}
	for _, b := range bars(x.Window) {
		c.Bars = append(c.Bars, plot.Bar{Low: float64(b.From) / nsInMS, High: float64(b.To) / nsInMS, Y: float64(b.Count)})
	}
	return c, len(c.Bars) > 0
}
