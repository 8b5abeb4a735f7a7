package tracing

import (
	"strings"
	"time"
)

// Collector is where spans go, and how; zero values are the peer's defaults.
type Collector struct {
	// URL is that of an OTLP/HTTP receiver; default http://localhost:4318/v1/traces.
	URL string
	// Resource describes the server; default service.name=triton-inference-server.
	Resource []Attribute
	// MaxQueueSize bounds the spans that wait, default 2048. Further spans are
	// dropped and counted.
	MaxQueueSize int
	// ScheduleDelay is the longest pause between exports, default 5 s. Below 0
	// exports do not pause.
	ScheduleDelay time.Duration
	// MaxExportBatch bounds the spans of an export, default 512.
	MaxExportBatch int
	// Headers go with each export, a key for example.
	Headers []Attribute
}

// Attribute is one fact about the server.
type Attribute struct{ Key, Value string }

const (
	defaultURL       = "http://localhost:4318/v1/traces"
	defaultService   = "triton-inference-server"
	defaultQueue     = 2048
	defaultDelay     = 5 * time.Second
	defaultBatch     = 512
	serviceAttribute = "service.name"
)

func (c *Collector) url() string {
	switch {
	case c.URL == "":
		return defaultURL
	case !strings.Contains(c.URL, "://"):
		return "http://" + c.URL
	}
	return c.URL
}

func (c *Collector) queue() int {
	if c.MaxQueueSize <= 0 {
		return defaultQueue
	}
	return c.MaxQueueSize
}

func (c *Collector) delay() time.Duration {
	if c.ScheduleDelay <= 0 {
		return defaultDelay
	}
	return c.ScheduleDelay
}

// batch is not more than waits, or an export would never begin.
func (c *Collector) batch() int {
	if c.MaxExportBatch <= 0 {
		return min(defaultBatch, c.queue())
	}
	return min(c.MaxExportBatch, c.queue())
}
