package tracing

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

type (
	traceID = trace.TraceID
	spanID  = trace.SpanID
)

// maxContext bounds what a model may send as the context of a request.
const maxContext = 8 << 10

// position is where a span is: the trace, and the span above it.
type position struct {
	trace traceID
	span  spanID // zero at the top
	state string
}

// valid reports whether there is a span above.
func (p position) valid() bool { return p.trace.IsValid() && p.span.IsValid() }

// headers reads W3C headers through a function.
type headers func(name string) string

func (h headers) Get(name string) string { return h(name) }

// Set and Keys make headers a propagation.TextMapCarrier, which only reads.
func (h headers) Set(string, string) {}

// Keys returns nothing: the propagator asks for names.
func (h headers) Keys() []string { return nil }

// fromHeaders returns the position that a client's headers name, or the zero position.
func fromHeaders(header func(name string) string) position {
	if header == nil || header("traceparent") == "" {
		return position{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), headers(header))
	sc := trace.SpanContextFromContext(ctx)
	return position{trace: sc.TraceID(), span: sc.SpanID(), state: sc.TraceState().String()}
}

// fromContext is fromHeaders for what a model has been given.
func fromContext(text string) position {
	var fields map[string]string
	if len(text) > maxContext || json.Unmarshal([]byte(text), &fields) != nil {
		return position{}
	}
	return fromHeaders(func(name string) string { return fields[name] })
}

// context is what a model is given at a span: the W3C headers as JSON.
func (p position) context(span spanID) string {
	b := make([]byte, 0, 80+len(p.state))
	b = append(b, `{"traceparent":"00-`...)
	b = hex.AppendEncode(b, p.trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	b = append(b, `-01"`...)
	if p.state != "" {
		b = append(b, `,"tracestate":`...)
		b = appendString(b, p.state)
	}
	return string(append(b, '}'))
}

// put has the outermost span of a trace below parent, or begins a trace.
func (tr *Trace) put(parent position) {
	tr.remote = parent
	tr.at = position{trace: parent.trace, span: newSpanID(), state: parent.state}
	if !parent.valid() {
		tr.remote = position{}
		tr.at.state = ""
		tr.at.trace = newTraceID()
	}
}

func newSpanID() (id spanID) {
	fill(id[:])
	return id
}

func newTraceID() (id traceID) {
	fill(id[:])
	return id
}

// fill makes bytes that are not all zero.
func fill(b []byte) {
	for i := 0; i < len(b); i += 8 {
		n := rand.Uint64() | 1
		for k := range 8 {
			b[i+k] = byte(n >> (8 * k))
		}
	}
}
