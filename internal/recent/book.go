// Package recent keeps the last requests that failed, and while somebody looks the
// slowest ones, with where their time went. It costs a request that succeeds one
// comparison.
package recent

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

const (
	// mostFailures and mostSlow are how many are kept.
	mostFailures = 200
	mostSlow     = 32
	// window is how long a slow request counts, at least; at most twice as long.
	window = time.Minute
	// failurePause bounds what failures cost where all fail: of those that come within
	// it one is kept.
	failurePause = time.Millisecond
	// mostText bounds an error, in bytes.
	mostText = 2 << 10
)

// Request is one that has ended.
type Request struct {
	// Number grows with each one that is kept.
	Number  uint64
	Model   string
	Version int64
	ID      string
	// Internal says that another model has sent it.
	Internal bool
	At       time.Time // of its end
	Took     time.Duration
	Phases   Phases
	Steps    []Step // of an ensemble, and what the model has called
	Left     int    // steps beyond those
	Error    string // empty for a success
	Reason   string
}

// Step is a request that was sent for another one: to a step of an ensemble, or by the
// model to another model. Steps are those sent for it.
type Step struct {
	Model      string
	Version    int64
	From, Took time.Duration // from the begin of the outermost request
	// Phases are queue, input, infer and output.
	Phases [4]time.Duration
	Failed bool
	Steps  []Step
	Left   int
}

// Phases is where the time of a request went, in their order. Those of an ensemble
// are sums over its steps, which run beside each other.
type Phases struct {
	Prepare, Queue, Input, Infer, Output, Respond time.Duration
	Ensemble                                      bool
}

// Book keeps requests. It is safe for concurrent use.
type Book struct {
	slower  atomic.Int64 // ns: what took less is not kept; written under mu
	failed  atomic.Int64 // when one was kept, by backend.Now
	skipped atomic.Uint64

	mu       sync.Mutex
	watchers int
	number   uint64
	failures []Request // a ring once it is full
	next     int
	begun    time.Time // of the window
	slow     []Request // of the window, the slowest first
	former   []Request // of the window before
}

// New returns an empty book.
func New() *Book {
	b := &Book{}
	b.slower.Store(math.MaxInt64)
	return b
}

// Watch keeps the slowest requests until stop is called.
func (b *Book) Watch() (stop func()) {
	b.watch(1)
	return sync.OnceFunc(func() { b.watch(-1) })
}

func (b *Book) watch(more int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.watchers
	b.watchers += more
	switch {
	case b.watchers == 0:
		b.slower.Store(math.MaxInt64)
	case before == 0:
		b.slower.Store(0)
	}
}

// Watched reports whether somebody looks.
func (b *Book) Watched() bool { return b.slower.Load() != math.MaxInt64 }

// Ended sees a request after its final response.
func (b *Book) Ended(r *infer.Request) {
	if !r.Ended() {
		return
	}
	took := r.Times.End - r.Times.Start
	if err, why := r.Failure(); err != nil {
		b.fail(r, err, why.String())
	} else if took >= b.slower.Load() {
		b.keepSlow(entry(r, took))
	}
}

// Refused sees a request that was not taken.
func (b *Book) Refused(r *infer.Request, err error) {
	b.fail(r, backend.AsError(err), infer.Rejected.String())
}

func (b *Book) fail(r *infer.Request, err *backend.Error, why string) {
	now, last := backend.Now(), b.failed.Load()
	if last != 0 && now-last < int64(failurePause) || !b.failed.CompareAndSwap(last, now) {
		b.skipped.Add(1)
		return
	}
	e := entry(r, max(0, r.Times.End-r.Times.Start))
	e.Error, e.Reason = strings.Clone(err.Message[:min(len(err.Message), mostText)]), why
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number++
	e.Number = b.number
	if len(b.failures) < mostFailures {
		b.failures = append(b.failures, e)
		return
	}
	b.failures[b.next] = e
	b.next = (b.next + 1) % mostFailures
}

func (b *Book) keepSlow(e Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.At.Sub(b.begun) > window {
		b.former, b.slow, b.begun = b.slow, nil, e.At
		if b.watchers > 0 {
			b.slower.Store(0)
		}
	}
	at, _ := slices.BinarySearchFunc(b.slow, e.Took, func(r Request, took time.Duration) int { return cmp.Compare(took, r.Took) })
	if at >= mostSlow {
		return
	}
	b.number++
	e.Number = b.number
	if b.slow = slices.Insert(b.slow, at, e); len(b.slow) > mostSlow {
		b.slow = b.slow[:mostSlow]
	}
	if len(b.slow) == mostSlow && b.watchers > 0 {
		b.slower.Store(int64(b.slow[mostSlow-1].Took))
	}
}

// Failures returns those that are kept with a number above since, the oldest first,
// and how many failures were too many to be kept.
func (b *Book) Failures(since uint64) (kept []Request, skipped uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.failures {
		if e := b.failures[(b.next+i)%len(b.failures)]; e.Number > since {
			kept = append(kept, e)
		}
	}
	return kept, b.skipped.Load()
}

// Slow returns the slowest requests of the last minute or two, the slowest first.
func (b *Book) Slow() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.slow)
	if time.Since(b.begun) < window {
		all = append(all, b.former...)
		slices.SortStableFunc(all, func(x, y Request) int { return cmp.Compare(y.Took, x.Took) })
	}
	return all[:min(len(all), mostSlow)]
}

// entry is what is kept of r.
func entry(r *infer.Request, took int64) Request {
	t := &r.Times
	e := Request{
		Model: strings.Clone(r.ModelName), Version: r.ModelVersion, ID: strings.Clone(r.ID[:min(len(r.ID), mostText)]), Internal: r.Internal,
		At: time.Now(), Took: time.Duration(took),
	}
	if t.ComputeStart == 0 { // it was not executed
		e.Phases.Prepare = e.Took
		if t.Queue != 0 {
			e.Phases.Prepare = time.Duration(t.Queue - t.Start)
			e.Phases.Queue = e.Took - e.Phases.Prepare
		}
		return e
	}
	e.Steps, e.Left = steps(r.Spans, t.Start)
	if r.Spans != nil && r.Spans.Steps {
		e.Phases.Ensemble = true
		for i := range e.Steps {
			s := &e.Steps[i].Phases
			e.Phases.Queue += s[0]
			e.Phases.Input += s[1]
			e.Phases.Infer += s[2]
			e.Phases.Output += s[3]
		}
		return e
	}
	queue, input, inf, output := t.Phases()
	e.Phases = Phases{Queue: time.Duration(queue), Input: time.Duration(input), Infer: time.Duration(inf), Output: time.Duration(output)}
	e.Phases.Prepare = time.Duration(max(0, t.Queue-t.Start))
	if t.Queue == 0 {
		e.Phases.Prepare = 0
	}
	e.Phases.Respond = max(0, e.Took-e.Phases.Prepare-time.Duration(queue+input+inf+output))
	return e
}

// steps are the spans of a request in the order in which they began.
func steps(of *infer.Spans, begin int64) (all []Step, left int) {
	if of == nil {
		return nil, 0
	}
	if len(of.All) == 0 {
		return nil, of.Left
	}
	all = make([]Step, len(of.All))
	for i := range of.All {
		s, to := &of.All[i], &all[i]
		*to = Step{
			Model: s.Model, Version: s.Version, From: time.Duration(max(0, s.Start-begin)), Took: time.Duration(max(0, s.End-s.Start)),
			Failed: s.Failed,
		}
		for j, ns := range s.Phases {
			to.Phases[j] = time.Duration(ns)
		}
		to.Steps, to.Left = steps(s.Inside, begin)
	}
	slices.SortStableFunc(all, func(x, y Step) int { return cmp.Compare(x.From, y.From) })
	return all, of.Left
}
