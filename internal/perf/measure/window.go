package measure

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nesoserve/neso/internal/perf/target"
)

// Window is what was measured between two moments.
type Window struct {
	Sums
	Start, End int64 // nanoseconds of drive.Now
	Histogram  *hdrhistogram.Histogram
	Errors     []ErrorCount
	Records    []Record
	Server     []target.Counters
	// ClientCPU and ServerCPU are seconds of processor time; ServerCPU is -1 where the
	// server's processes cannot be seen.
	ClientCPU, ServerCPU float64
}

// Seconds is how long the window is.
func (w *Window) Seconds() float64 { return float64(w.End-w.Start) / 1e9 }

// Failed is how many requests failed.
func (w *Window) Failed() (n int64) {
	for _, e := range w.Errors {
		n += e.Count
	}
	return n
}

// Latency is what decides whether windows are stable: the percentile, or for -1 the
// mean, in nanoseconds.
func (w *Window) Latency(percentile int) int64 {
	if percentile > 0 {
		return w.Histogram.ValueAtPercentile(float64(percentile))
	}
	return w.Mean()
}

// Mean is the mean latency in nanoseconds.
func (w *Window) Mean() int64 { return w.Sums.Latency / max(w.Count, 1) }

// Deviation is the standard deviation of latencies in nanoseconds.
func (w *Window) Deviation() int64 {
	if w.Count < 2 {
		return 0
	}
	mean := float64(w.Sums.Latency) / float64(w.Count)
	return int64(math.Sqrt(max(0, (w.Square-mean*mean*float64(w.Count))/float64(w.Count-1))))
}

// Rate is requests a second.
func (w *Window) Rate() float64 {
	if w.End <= w.Start {
		return 0
	}
	return float64(w.Count) / w.Seconds()
}

// StableWindows is how many windows in a row must agree.
const StableWindows = 3

// Stable reports whether the last windows agree in throughput and, if asked for, in
// latency: the largest is at most 1+threshold times the smallest.
func Stable(windows []*Window, threshold float64, percentile int, latency bool) bool {
	if len(windows) < StableWindows {
		return false
	}
	last := windows[len(windows)-StableWindows:]
	if !within(last, threshold, (*Window).Rate) {
		return false
	}
	return !latency || within(last, threshold, func(w *Window) float64 { return float64(w.Latency(percentile)) })
}

func within(windows []*Window, threshold float64, value func(*Window) float64) bool {
	low, high := math.Inf(1), 0.0
	for _, w := range windows {
		low, high = min(low, value(w)), max(high, value(w))
	}
	return low > 0 && high/low <= 1+threshold
}

// Spread is the largest difference of the windows' throughput from its mean, as a share.
func Spread(windows []*Window) float64 {
	var mean, most float64
	for _, w := range windows {
		mean += w.Rate() / float64(len(windows))
	}
	for _, w := range windows {
		most = max(most, math.Abs(w.Rate()-mean))
	}
	if mean == 0 {
		return 0
	}
	return most / mean
}

// Merge adds windows up; Start and End are such that the length is the sum of theirs.
func Merge(windows []*Window) *Window {
	m := &Window{Histogram: newHistogram()}
	if len(windows) == 0 {
		m.ServerCPU = -1
		return m
	}
	m.Start, m.End = windows[0].Start, windows[0].Start
	for _, w := range windows {
		m.End += w.End - w.Start
		m.add(&w.Sums)
		m.Histogram.Merge(w.Histogram)
		for _, e := range w.Errors {
			m.Errors = addError(m.Errors, e)
		}
		m.Server = target.Add(m.Server, w.Server)
		m.ClientCPU += w.ClientCPU
		if w.ServerCPU < 0 || m.ServerCPU < 0 {
			m.ServerCPU = -1
		} else {
			m.ServerCPU += w.ServerCPU
		}
	}
	byCount(m.Errors)
	return m
}
