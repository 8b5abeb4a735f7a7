//go:build !edge

package tracing

import (
	"strings"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/nesoserve/neso/backend"
)

// Names of spans, as the peer's dashboards know them.
const (
	rootSpan    = "InferRequest"
	computeSpan = "compute"
	scopeName   = "triton-server"
)

// spans returns a trace as spans. The outer one is the request as the front end
// saw it. In it lies the model's request, with the time to compute it, and in that
// one lie the requests that it made of other models.
func spans(tr *Trace) []*otlp.Span {
	all := make([]*otlp.Span, 0, 1+2*len(tr.nodes))
	if tr.front != nil && len(tr.events) > 0 {
		root := tr.span(tr.at.span, tr.remote.span, rootSpan, tr.events[0].ns, tr.done)
		for _, e := range tr.events {
			root.Events = append(root.Events, moment(e.name, e.ns))
		}
		all = append(all, root)
	}
	for _, n := range tr.nodes {
		if !n.begun {
			continue
		}
		s := tr.span(n.span, n.above, n.model, n.times.Start, n.times.End)
		s.Attributes = []*common.KeyValue{
			text("triton.model_name", n.model), number("triton.model_version", n.version),
			number("triton.trace_id", int64(n.id)), number("triton.trace_parent_id", int64(n.parent)),
		}
		if n.request != "" {
			s.Attributes = append(s.Attributes, text("triton.request_id", n.request))
		}
		if n.route != nil {
			s.Attributes = append(s.Attributes, text("neso.version_reason", n.route.Reason.String()))
			if n.route.Label != "" {
				s.Attributes = append(s.Attributes, text("neso.version_label", n.route.Label))
			}
		}
		if n.fault != "" {
			s.Status = &otlp.Status{Code: otlp.Status_STATUS_CODE_ERROR, Message: strings.ToValidUTF8(n.fault, "\uFFFD")}
		}
		all = append(all, s)
		var compute *otlp.Span
		n.phases(func(name string, ns int64, computes bool) {
			switch {
			case !computes:
				s.Events = append(s.Events, moment(name, ns))
				return
			case compute == nil:
				compute = tr.span(newSpanID(), n.span, computeSpan, ns, ns)
				all = append(all, compute)
			}
			compute.Events = append(compute.Events, moment(name, ns))
			compute.EndTimeUnixNano = wall(ns)
		})
	}
	return all
}

func (tr *Trace) span(id, above spanID, name string, start, end int64) *otlp.Span {
	s := &otlp.Span{
		TraceId: tr.at.trace[:], SpanId: append([]byte(nil), id[:]...), TraceState: tr.at.state, Name: strings.ToValidUTF8(name, "\uFFFD"),
		Flags: 1,
		Kind:  otlp.Span_SPAN_KIND_SERVER, StartTimeUnixNano: wall(start), EndTimeUnixNano: wall(max(start, end)),
	}
	if above.IsValid() {
		s.ParentSpanId = append([]byte(nil), above[:]...)
	}
	return s
}

func moment(name string, ns int64) *otlp.Span_Event {
	return &otlp.Span_Event{Name: name, TimeUnixNano: wall(ns)}
}

// wall returns the time of day of a timestamp, in nanoseconds.
func wall(ns int64) uint64 { return uint64(backend.Time(ns).UnixNano()) }

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value,
		"\uFFFD")}}}
}

func number(key string, value int64) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}}}
}
