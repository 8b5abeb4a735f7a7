package neso

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/nesoserve/neso/internal/tracing"
)

// Trace says which requests are traced, and where their traces go. Clients may
// change all but the place, see docs/operate/tracing.md.
type Trace struct {
	// Level is what is noted: "TIMESTAMPS", "TENSORS" (the tensors themselves, in
	// the file only), or both; empty or "OFF" means that nothing is traced.
	Level []string
	// Rate traces each Rate-th request; default 1000. A negative one traces none
	// but, with a Collector, those whose client traces them.
	Rate int
	// Count ends tracing after so many requests; default 0 means never. A negative
	// one traces none.
	Count int
	// File takes the traces as Triton's JSON, where there is no Collector.
	File string
	// LogFrequency, if not 0, is how many traces go into each of the numbered files
	// File.0, File.1 and so on.
	LogFrequency int
	// Collector takes spans of OpenTelemetry; nil means the file.
	Collector *TraceCollector
}

// TraceCollector is a receiver of OpenTelemetry's OTLP over HTTP, and how spans
// get there.
type TraceCollector struct {
	// URL is the receiver's; default http://localhost:4318/v1/traces.
	URL string
	// Resource describes the server; default service.name=triton-inference-server.
	Resource []TraceAttribute
	// MaxQueueSize bounds the spans that wait (default 2048); further ones are
	// dropped, counted and reported in the log.
	MaxQueueSize int
	// ScheduleDelay is the longest pause between exports; default 5 s. Below 0
	// traces are exported at once.
	ScheduleDelay time.Duration
	// MaxExportBatch bounds the spans of one export; default 512.
	MaxExportBatch int
	// Headers go with each export, a key for example.
	Headers []TraceAttribute
}

// TraceAttribute is one fact about the server, such as service.name, or a header.
type TraceAttribute struct{ Key, Value string }

// traceFlush is how long a server that stops waits for its last traces.
const traceFlush = 5 * time.Second

func (t *Trace) tracer(log *slog.Logger) (*tracing.Tracer, error) {
	c := tracing.Config{Settings: tracing.Defaults(), File: t.File, Logger: log}
	for _, word := range t.Level {
		l, known := tracing.ParseLevel(word)
		if !known {
			return nil, fmt.Errorf("neso: unknown trace level %q, expected OFF, TIMESTAMPS or TENSORS", word)
		}
		c.Level |= l
	}
	if t.Rate > math.MaxUint32 || t.Count > math.MaxInt32 || t.LogFrequency < 0 || t.LogFrequency > math.MaxUint32 {
		return nil, fmt.Errorf("neso: trace rate %d, count %d or log frequency %d is out of range", t.Rate, t.Count, t.LogFrequency)
	}
	switch {
	case t.Rate < 0:
		c.Rate = 0
	case t.Rate > 0:
		c.Rate = uint32(t.Rate)
	}
	switch {
	case t.Count < 0:
		c.Count = 0
	case t.Count > 0:
		c.Count = int32(t.Count)
	}
	c.LogFrequency = uint32(t.LogFrequency)
	if o := t.Collector; o != nil {
		c.Collector = &tracing.Collector{
			URL: o.URL, MaxQueueSize: o.MaxQueueSize, ScheduleDelay: o.ScheduleDelay,
			MaxExportBatch: o.MaxExportBatch,
		}
		for _, a := range o.Resource {
			c.Collector.Resource = append(c.Collector.Resource, tracing.Attribute(a))
		}
		for _, h := range o.Headers {
			c.Collector.Headers = append(c.Collector.Headers, tracing.Attribute(h))
		}
	}
	return tracing.New(c)
}

// closeTraces flushes what has been traced, once no front end notes anything.
func (r *running) closeTraces() {
	if r.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
	defer cancel()
	if err := r.tracer.Close(ctx); err != nil {
		r.log.Warn("traces are lost", "error", err.Error())
	}
}
