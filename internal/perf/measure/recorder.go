// Package measure owns what the load generator counts: requests by the goroutine
// that sent them, windows of them, when windows are stable, and what several add up
// to. Open recorder.go first, then window.go.
package measure

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nesoserve/neso/internal/perf/data"
)

// The histogram has three significant digits of latencies from 1 ns to an hour.
const (
	shortest = 1
	longest  = 3600 * 1e9
	digits   = 3
)

// newHistogram returns an empty one.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, digits) }

// Sample is one request that was answered. Times are nanoseconds of drive.Now.
type Sample struct {
	// Due is when it had to be sent: at a rate as planned, else when it was.
	Due, Begun, Sent, First, Last int64
	Responses                     int
	SequenceEnd                   bool
}

// Record is a request with all that a profile export tells of it.
type Record struct {
	Start int64
	Step  *data.Step
	ID    uint64
	At    []int64
	Body  []byte // the recorder keeps a copy
	// Ends is where each response ends in Body, nil if it is one.
	Ends []int
	// Header is how much of Body is JSON, -1 if all is.
	Header int
}

// ErrorCount is how often requests failed for one cause, and the text of the first.
type ErrorCount struct {
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Count int64  `json:"count"`
}

// flushed is how many latencies a shard holds before it hands them on.
const flushed = 1024

// late is from when on a request that is due counts as delayed, in nanoseconds.
const late = 10e6

// Shard is what one goroutine counts. Only that goroutine adds to it.
type Shard struct {
	recorder  *Recorder
	mu        sync.Mutex
	latencies []int64
	sums      Sums
	errors    map[string]*ErrorCount
	records   []Record
}

// Sums are totals of requests that were answered; times in nanoseconds.
type Sums struct {
	Count, Responses, Sequences, Delayed int64
	Latency                              int64
	Square                               float64
	Service                              int64 // from the send on, where Latency counts from when it was due
	Send, Receive, First                 int64 // First is until the first byte of the answer
}

func (s *Sums) add(o *Sums) {
	s.Count += o.Count
	s.Responses += o.Responses
	s.Sequences += o.Sequences
	s.Delayed += o.Delayed
	s.Latency += o.Latency
	s.Square += o.Square
	s.Service += o.Service
	s.Send += o.Send
	s.Receive += o.Receive
	s.First += o.First
}

// Add counts a request.
func (l *Shard) Add(s *Sample) {
	latency := s.Last - s.Due
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latencies = append(l.latencies, latency)
	t := &l.sums
	t.Count++
	t.Responses += int64(s.Responses)
	t.Latency += latency
	t.Square += float64(latency) * float64(latency)
	t.Service += s.Last - s.Begun
	t.Send += s.Sent - s.Begun
	t.Receive += s.Last - s.First
	t.First += s.First - s.Due
	if s.Begun-s.Due > late {
		t.Delayed++
	}
	if s.SequenceEnd {
		t.Sequences++
	}
	if len(l.latencies) == flushed {
		l.recorder.record(l.latencies)
		l.latencies = l.latencies[:0]
	}
}

// mostKept bounds the answers that records keep, in bytes.
const mostKept = 2 << 30

// Keep keeps a record; without its answer if records hold as much of them as they may.
func (l *Shard) Keep(r *Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := *r
	if room := l.recorder.most - l.recorder.kept.Add(int64(len(r.Body))); room < 0 {
		l.recorder.kept.Add(-int64(len(r.Body)))
		l.recorder.cut.Add(1)
		kept.Body, kept.Ends = nil, nil
	} else {
		kept.Body, kept.Ends = slices.Clone(r.Body), slices.Clone(r.Ends)
	}
	l.records = append(l.records, kept)
}

// Fail counts a request that failed.
func (l *Shard) Fail(kind, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind = plain(kind, longestKind)
	e := l.errors[kind]
	if e == nil && len(l.errors) >= mostKinds {
		kind, text = "others", ""
		e = l.errors[kind]
	}
	if e == nil {
		e = &ErrorCount{Kind: kind, Text: plain(text, longestText)}
		l.errors[kind] = e
	}
	e.Count++
}

// Bounds of what a server has us remember of its errors.
const (
	mostKinds   = 64
	longestKind = 100
	longestText = 500
)

// plain is a text of the server's as it may be printed: of at most so many runes,
// without what moves a terminal's cursor or the direction of the text.
func plain(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > most {
			b.WriteString("...")
			break
		}
		switch {
		case r == '\n', r == '\t':
			b.WriteByte(' ')
		case !strconv.IsPrint(r):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Plain is a text of the server's as it may be printed.
func Plain(text string) string { return plain(text, longestText) }

// Recorder gathers what shards count. A shard's lock is held before the recorder's.
type Recorder struct {
	mu        sync.Mutex
	shards    []*Shard
	histogram *hdrhistogram.Histogram
	most      int64 // bytes of answers that records keep
	kept      atomic.Int64
	cut       atomic.Int64
}

// NewRecorder returns one without shards.
func NewRecorder() *Recorder { return &Recorder{histogram: newHistogram(), most: mostKept} }

// Cut is how many records are kept without their answers, for their size.
func (r *Recorder) Cut() int64 { return r.cut.Load() }

// Shard returns a shard for one goroutine.
func (r *Recorder) Shard() *Shard {
	l := &Shard{recorder: r, latencies: make([]int64, 0, flushed), errors: map[string]*ErrorCount{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shards = append(r.shards, l)
	return l
}

func (r *Recorder) record(latencies []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range latencies {
		_ = r.histogram.RecordValue(min(max(v, shortest), longest)) // within its bounds
	}
}

// Counts are how many requests were answered and failed since the last Take, and the
// sum of the latencies.
func (r *Recorder) Counts() (answered, failed, latency int64) {
	for _, l := range r.all() {
		l.mu.Lock()
		answered += l.sums.Count
		latency += l.sums.Latency
		for _, e := range l.errors {
			failed += e.Count
		}
		l.mu.Unlock()
	}
	return answered, failed, latency
}

func (r *Recorder) all() []*Shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.shards)
}

// Take returns what was counted since the last call, and begins anew.
func (r *Recorder) Take() *Window {
	w := &Window{}
	for _, l := range r.all() {
		l.mu.Lock()
		if len(l.latencies) > 0 {
			r.record(l.latencies)
			l.latencies = l.latencies[:0]
		}
		w.add(&l.sums)
		l.sums = Sums{}
		for _, e := range l.errors {
			w.Errors = addError(w.Errors, *e)
		}
		clear(l.errors)
		w.Records = append(w.Records, l.records...)
		l.records = nil
		l.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Histogram, r.histogram = r.histogram, newHistogram()
	byCount(w.Errors)
	return w
}

// byCount puts the most frequent first.
func byCount(list []ErrorCount) {
	slices.SortStableFunc(list, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
}

func addError(list []ErrorCount, e ErrorCount) []ErrorCount {
	for i := range list {
		if list[i].Kind == e.Kind {
			list[i].Count += e.Count
			return list
		}
	}
	return append(list, e)
}
