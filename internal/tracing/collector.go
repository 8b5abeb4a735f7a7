//go:build !edge

package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
)

const exportTimeout = 10 * time.Second

// collector exports spans in batches, from a goroutine that the first trace
// starts.
type collector struct {
	o        Collector
	upload   func(context.Context, *otlp.ResourceSpans) (refused int64, err error)
	hangUp   func()
	resource *resource.Resource
	dropped  dropped
	log      *slog.Logger

	ctx     context.Context // of exports
	cancel  context.CancelFunc
	wake    chan struct{} // there is a batch; one is enough
	closing chan struct{}
	stopped chan struct{}
	broken  bool // the last export failed, which has been said; of the goroutine

	mu      sync.Mutex
	waiting []queued
	text    int // of those that wait
	started bool
	closed  bool
}

// queued is a span that waits. The first one of a trace counts its texts.
type queued struct {
	span *otlp.Span
	text int
}

func newCollector(o Collector, log *slog.Logger) (*collector, error) {
	if u, err := url.Parse(o.url()); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("invalid URL of the trace collector: %q", o.URL)
	}
	client := newOTLP(o.url(), o.Headers)
	c := &collector{
		o: o, log: log, dropped: dropped{log: log}, upload: client.upload, hangUp: client.close,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	c.resource = &resource.Resource{Attributes: []*common.KeyValue{
		text("telemetry.sdk.language", "go"), text("telemetry.sdk.name", "opentelemetry"),
	}}
	named := false
	for _, a := range o.Resource {
		named = named || a.Key == serviceAttribute
		c.resource.Attributes = append(c.resource.Attributes, text(a.Key, a.Value))
	}
	if !named {
		c.resource.Attributes = append(c.resource.Attributes, text(serviceAttribute, defaultService))
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

func (c *collector) export(tr *Trace) {
	all := spans(tr)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(all) == 0:
		return
	case c.closed:
		c.dropped.add(len(all), "the server has stopped")
		return
	case len(c.waiting)+len(all) > c.o.queue(), c.text+tr.text > queuedText:
		c.dropped.add(len(all), "the collector is too slow, or the queue too short")
		return
	}
	text := tr.text
	c.text += text
	for _, s := range all {
		c.waiting = append(c.waiting, queued{s, text})
		text = 0
	}
	if !c.started {
		c.started = true
		go c.run()
	}
	if len(c.waiting) >= c.o.batch() || c.o.ScheduleDelay < 0 {
		select {
		case c.wake <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

func (c *collector) retire(*sampler) {}

func (c *collector) lost() uint64 { return c.dropped.n.Load() }

// run exports until the collector is closed and nothing waits.
func (c *collector) run() {
	defer close(c.stopped)
	defer c.cancel()
	defer c.hangUp()
	t := time.NewTicker(c.o.delay())
	defer t.Stop()
	for {
		full := false
		select {
		case <-c.wake:
			full = c.o.ScheduleDelay >= 0
		case <-t.C:
		case <-c.closing:
		}
		for c.exportSome(full) {
		}
		select {
		case <-c.closing:
			for c.exportSome(false) {
			}
			return
		default:
		}
	}
}

// exportSome exports one batch, a full one only if full, and reports whether
// there may be another one.
func (c *collector) exportSome(full bool) bool {
	c.mu.Lock()
	n := min(len(c.waiting), c.o.batch())
	if n == 0 || full && n < c.o.batch() {
		c.mu.Unlock()
		return false
	}
	batch := make([]*otlp.Span, n)
	for i, q := range c.waiting[:n] {
		batch[i], c.text = q.span, c.text-q.text
	}
	rest := copy(c.waiting, c.waiting[n:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, exportTimeout)
	defer cancel()
	refused, err := c.upload(ctx, &otlp.ResourceSpans{
		Resource: c.resource, ScopeSpans: []*otlp.ScopeSpans{{Scope: &common.InstrumentationScope{Name: scopeName}, Spans: batch}},
	})
	switch {
	case err != nil:
		c.dropped.n.Add(uint64(len(batch)))
		c.complain(err)
	case refused > 0:
		c.dropped.add(int(min(refused, int64(len(batch)))), "the collector has refused them")
	default:
		c.broken = false
	}
	return c.ctx.Err() == nil
}

// complain says once that exports fail, until one succeeds.
func (c *collector) complain(err error) {
	if !c.broken {
		c.broken = true
		c.log.Error("failed to export traces; requests go on, and traces are dropped until it works again", "collector", c.o.url(), "error",
			err.Error())
	}
}

func (c *collector) close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	started := c.started
	c.mu.Unlock()
	if !started {
		c.cancel()
		return nil
	}
	select {
	case <-c.stopped:
		return nil
	case <-ctx.Done():
		c.cancel()
		<-c.stopped
		c.mu.Lock()
		c.dropped.n.Add(uint64(len(c.waiting)))
		c.waiting = nil
		c.mu.Unlock()
		return fmt.Errorf("traces could not be exported in time: %w", ctx.Err())
	}
}
