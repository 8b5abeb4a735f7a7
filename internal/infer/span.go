package infer

import "sync"

// mostSpans bounds the spans of a request, those within others too: a decoupled step may
// make any number, ensembles of ensembles multiply them, and a model may call others in
// a loop.
const mostSpans = 64

// Spans are the requests that are sent for a request, in the order of their ends: those
// of an ensemble to its steps, and those that a model sends to others while it executes
// the request. They are kept for who looks at slow requests. All and Left may be read
// once the request has its final response: what ends later is not kept.
type Spans struct {
	All []Span
	// Left counts those for which there was no room.
	Left int
	// Steps says that they are those of an ensemble.
	Steps bool

	mu   sync.Mutex
	n    int // of all, those within others too
	over bool
}

// Span is one request that was sent for another, in the clock of backend.Now.
type Span struct {
	Model      string
	Version    int64
	Start, End int64
	// Phases are queue, compute input, compute infer and compute output.
	Phases [4]int64
	Failed bool
	// Inside are those that were sent for this one; nil for none.
	Inside *Spans
}

// SpansOf returns the Spans among what a model has given back of its requests, see
// backend.Caller.
func SpansOf(calls []any) (all []*Spans) {
	for _, c := range calls {
		if s, ok := c.(*Spans); ok {
			all = append(all, s)
		}
	}
	return all
}

// Follow has the request keep those that are sent for it.
func (r *Request) Follow() {
	r.Spans = &Spans{}
	r.Calls = r.Spans
}

// endSpans ends the spans of a request that has its final response, and has the
// requests that it was sent for keep it.
func (r *Request) endSpans() {
	if r.Spans != nil {
		r.Spans.end()
	}
	if len(r.For) == 0 {
		return
	}
	one := Span{Model: r.ModelName, Version: r.ModelVersion, Start: r.Times.Start, End: r.Times.End, Failed: r.fail != nil}
	if r.Times.ComputeStart != 0 {
		one.Phases[0], one.Phases[1], one.Phases[2], one.Phases[3] = r.Times.Phases()
	}
	if r.Spans != nil && len(r.Spans.All)+r.Spans.Left > 0 {
		one.Inside = r.Spans
	}
	for _, s := range r.For {
		s.Add(one)
	}
}

func (s *Spans) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}

// Add keeps a span, if there is room. Those inside of it have ended.
func (s *Spans) Add(one Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return
	case s.n == mostSpans:
		s.Left++
		return
	}
	if in := one.Inside; in != nil && s.n+1+in.n > mostSpans {
		one.Inside = &Spans{Left: len(in.All) + in.Left}
	}
	s.n++
	if one.Inside != nil {
		s.n += one.Inside.n
	}
	s.All = append(s.All, one)
}
