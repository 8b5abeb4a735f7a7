package stats

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// latencyBounds are upper bounds in nanoseconds: from what a no-op takes to
// what a patient client waits.
var latencyBounds = []int64{
	int64(10 * time.Microsecond), int64(25 * time.Microsecond), int64(50 * time.Microsecond), int64(100 * time.Microsecond),
	int64(250 * time.Microsecond), int64(500 * time.Microsecond), int64(time.Millisecond), int64(2500 * time.Microsecond),
	int64(5 * time.Millisecond), int64(10 * time.Millisecond), int64(25 * time.Millisecond), int64(50 * time.Millisecond),
	int64(100 * time.Millisecond), int64(250 * time.Millisecond), int64(500 * time.Millisecond), int64(time.Second),
	int64(2500 * time.Millisecond), int64(5 * time.Second), int64(10 * time.Second), int64(30 * time.Second),
}

var batchSizeBounds = []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}

// firstResponseBounds are Triton's.
var firstResponseBounds = []int64{
	int64(100 * time.Millisecond), int64(500 * time.Millisecond), int64(2000 * time.Millisecond), int64(5000 * time.Millisecond),
}

const (
	maxBuckets = 21
	// mostBounds is how many buckets of a configuration count.
	mostBounds = 1000
)

// firstResponse returns the upper bounds for buckets in milliseconds; Triton's where
// there are none.
func firstResponse(buckets []float64) []int64 {
	bounds := make([]int64, 0, len(buckets))
	for _, ms := range buckets {
		if ns := ms * float64(time.Millisecond); ns > math.MinInt64 && ns < math.MaxInt64 { // not what is no number
			bounds = append(bounds, int64(ns))
		}
	}
	slices.Sort(bounds)
	if bounds = slices.Compact(bounds); len(bounds) == 0 {
		return firstResponseBounds
	}
	return bounds[:min(len(bounds), mostBounds)]
}

// Histogram counts values in fixed buckets.
type Histogram struct {
	bounds  []int64
	buckets [maxBuckets]atomic.Uint64 // one above the last bound
	many    []atomic.Uint64           // in their place, where these are too few
	sum     atomic.Int64
}

func (h *Histogram) init(bounds []int64) {
	h.bounds = bounds
	if len(bounds) >= maxBuckets {
		h.many = make([]atomic.Uint64, len(bounds)+1)
	}
}

func (h *Histogram) bucket(i int) *atomic.Uint64 {
	if h.many != nil {
		return &h.many[i]
	}
	return &h.buckets[i]
}

// Observe counts one value; a negative one counts as 0.
func (h *Histogram) Observe(v int64) {
	v = max(v, 0)
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.bucket(i).Add(1)
	h.sum.Add(v)
}

// HistogramSnapshot is a histogram at one moment.
type HistogramSnapshot struct {
	Bounds []int64  // upper bounds
	Counts []uint64 // per bucket, not cumulative; one more than Bounds
	Sum    int64
}

// Count returns the number of values.
func (s HistogramSnapshot) Count() uint64 {
	n := uint64(0)
	for _, c := range s.Counts {
		n += c
	}
	return n
}

func (h *Histogram) snapshot() HistogramSnapshot {
	s := HistogramSnapshot{Bounds: h.bounds, Counts: make([]uint64, len(h.bounds)+1), Sum: h.sum.Load()}
	for i := range s.Counts {
		s.Counts[i] = h.bucket(i).Load()
	}
	return s
}

// Since returns what was counted after an earlier snapshot of the same histogram.
func (s HistogramSnapshot) Since(before HistogramSnapshot) HistogramSnapshot {
	d := HistogramSnapshot{Bounds: s.Bounds, Counts: slices.Clone(s.Counts), Sum: s.Sum - before.Sum}
	for i := range min(len(d.Counts), len(before.Counts)) {
		d.Counts[i] -= min(d.Counts[i], before.Counts[i])
	}
	return d
}

// Quantile returns the value below which the fraction q of all values lies, as if
// those of a bucket were spread evenly; the last bound for what is above it, and
// false where there are none.
func (s HistogramSnapshot) Quantile(q float64) (float64, bool) {
	total := s.Count()
	if total == 0 || len(s.Bounds) == 0 {
		return 0, false
	}
	rank, below, lower := q*float64(total), 0.0, 0.0
	for i, n := range s.Counts[:len(s.Bounds)] {
		upper := float64(s.Bounds[i])
		if n > 0 && below+float64(n) >= rank {
			return lower + (upper-lower)*max(0, rank-below)/float64(n), true
		}
		below, lower = below+float64(n), upper
	}
	return lower, true
}
