package rollout

import (
	"fmt"
	"math/bits"
	"strconv"
	"time"
)

const (
	parts = 10 // parts of a window: what has left it is forgotten by a tenth at a time
	// Latencies from 1 µs to 275 s stand in buckets of an eighth of an octave; shorter and
	// longer ones in the first and the last.
	firstOctave  = 10
	lastOctave   = 38
	perOctave    = 8
	bucketsCount = (lastOctave - firstOctave) * perOctave
)

// side is what one of the two versions has done.
type side struct {
	total  tally
	slices [parts]tally
}

type tally struct {
	requests, failed, over int64
	latency                [bucketsCount]uint32
}

// Monitor watches a version and the one beside it over a sliding window. It is a pure
// function of what it is told: times come from outside, in nanoseconds.
type Monitor struct {
	bounds  StepBack
	width   int64 // of a slice
	slice   int64 // number of the present one
	watched side
	beside  side
}

// NewMonitor returns one that has seen nothing.
func NewMonitor(bounds StepBack) *Monitor {
	return &Monitor{bounds: bounds, width: max(1, int64(bounds.Window)/parts)}
}

// Observe takes the end of a request, and returns which bound the watched version has
// left, or "". A request that failed has no latency.
func (m *Monitor) Observe(now int64, watched, failed bool, latency time.Duration) string {
	m.advance(now)
	s := &m.beside
	if watched {
		s = &m.watched
	}
	s.add(int(m.slice%parts), failed, m.bounds.MaxLatency > 0 && latency > m.bounds.MaxLatency, bucket(latency))
	if !watched {
		return ""
	}
	return m.verdict()
}

func (s *side) add(slice int, failed, over bool, bucket int) {
	for _, t := range [...]*tally{&s.total, &s.slices[slice]} {
		t.requests++
		switch {
		case failed:
			t.failed++
		default:
			t.latency[bucket]++
			if over {
				t.over++
			}
		}
	}
}

// advance forgets the slices that have left the window.
func (m *Monitor) advance(now int64) {
	number := now / m.width
	for range min(number-m.slice, parts) {
		m.slice++
		m.watched.forget(int(m.slice % parts))
		m.beside.forget(int(m.slice % parts))
	}
	m.slice = max(m.slice, number)
}

func (s *side) forget(slice int) {
	t := &s.slices[slice]
	if t.requests == 0 {
		return
	}
	s.total.requests -= t.requests
	s.total.failed -= t.failed
	s.total.over -= t.over
	for i, n := range t.latency {
		s.total.latency[i] -= n
	}
	*t = tally{}
}

// verdict says which bound does not hold, in the order error rate, latency, ratio.
func (m *Monitor) verdict() string {
	b, t := &m.bounds, &m.watched.total
	if t.requests < b.MinRequests {
		return ""
	}
	in := fmt.Sprintf("of %d requests in %s", t.requests, b.Window)
	if rate := float64(t.failed) / float64(t.requests); b.MaxErrorRate >= 0 && rate > b.MaxErrorRate {
		return fmt.Sprintf("%s %% %s failed, the bound is %s %%", percent(rate), in, percent(b.MaxErrorRate))
	}
	good := t.requests - t.failed
	if b.MaxLatency > 0 && good > 0 && float64(good-t.over) < b.Quantile*float64(good) {
		return fmt.Sprintf("%s %% %s took longer than %s, the bound is %s %%", percent(float64(t.over)/float64(good)), in, b.MaxLatency,
			percent(1-b.Quantile))
	}
	other := m.beside.total.requests - m.beside.total.failed
	if b.MaxLatencyRatio > 0 && good > 0 && other >= b.MinRequests {
		// The lower edge of the one and the upper of the other: who is judged has the
		// benefit of the doubt.
		own, _ := t.quantile(b.Quantile, good)
		_, there := m.beside.total.quantile(b.Quantile, other)
		if float64(own) > b.MaxLatencyRatio*float64(there) {
			return fmt.Sprintf("the latency at quantile %v %s is above %s, more than %v times the %s of the version beside it", b.Quantile, in,
				own, b.MaxLatencyRatio, there)
		}
	}
	return ""
}

func percent(share float64) string { return strconv.FormatFloat(share*100, 'f', 1, 64) }

// bucket returns the place of a latency.
func bucket(d time.Duration) int {
	if d < 1<<firstOctave {
		return 0
	}
	octave := bits.Len64(uint64(d)) - 1
	if octave >= lastOctave {
		return bucketsCount - 1
	}
	return (octave-firstOctave)*perOctave + int(uint64(d)>>(octave-3)&(perOctave-1))
}

// edge is where a bucket begins.
func edge(i int) time.Duration {
	octave := i/perOctave + firstOctave
	return 1<<octave + time.Duration(i%perOctave)<<(octave-3)
}

// quantile returns between what the latency at q of n requests lies.
func (t *tally) quantile(q float64, n int64) (low, high time.Duration) {
	rank := max(1, int64(q*float64(n)+0.999999))
	for i, count := range t.latency {
		if rank -= int64(count); rank <= 0 {
			if low = edge(i); i == 0 {
				low = 0
			}
			return low, edge(i + 1)
		}
	}
	return 0, 0
}

// Numbers returns what the window holds of the watched version.
func (m *Monitor) Numbers(now int64) (requests, failed int64) {
	m.advance(now)
	return m.watched.total.requests, m.watched.total.failed
}
