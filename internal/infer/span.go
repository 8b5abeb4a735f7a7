package infer

// mostSpans bounds the spans of a request, those within others too: a decoupled step may
// make any number, and ensembles of ensembles multiply them.
const mostSpans = 64

// Spans are the requests that the request of an ensemble has sent to its steps, in the
// order of their ends. They are kept for who looks at slow requests.
type Spans struct {
	All []Span
	// Left counts those for which there was no room.
	Left int

	n int // of all, those within others too
}

// Span is one request to a step, in the clock of backend.Now.
type Span struct {
	Model      string
	Version    int64
	Start, End int64
	// Phases are queue, compute input, compute infer and compute output.
	Phases [4]int64
	Failed bool
	// Inside are those of a step that is an ensemble itself.
	Inside *Spans
}

// SpanOf is the span of a request that ends, without its phases.
func SpanOf(r *Request) Span {
	return Span{Model: r.ModelName, Version: r.ModelVersion, Start: r.Times.Start, End: r.Times.End, Failed: r.fail != nil, Inside: r.Spans}
}

// Add keeps a span, if there is room.
func (s *Spans) Add(one Span) {
	if s.n == mostSpans {
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
