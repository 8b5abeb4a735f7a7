package neso

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/listen"
	"github.com/nesoserve/neso/internal/metrics"
	"github.com/nesoserve/neso/internal/stats"
)

// Metrics configures the Prometheus endpoint.
type Metrics struct {
	// Address is "host:port", "unix:/path", or empty for no listener.
	Address string
	// TLS makes the listener speak HTTPS; nil means plain text.
	TLS *TLS
	// NoCPU leaves out the machine's CPU and memory.
	NoCPU bool
	// NoGPU leaves out the GPUs.
	NoGPU bool
	// Config holds settings such as "summary_latencies=true".
	Config []string
	// NoDashboard leaves out /dashboard, a page that shows the server.
	NoDashboard bool
	// DashboardAddress, "host:port" or "unix:/path", is a listener for the dashboard
	// alone, with the TLS of the metrics. Empty serves it beside the metrics, where
	// other machines read only, unless AuthFile or TLS.ClientCA is set.
	DashboardAddress string
	// Custom are the metrics that models and the program publish; servers may share
	// them. nil means some of the server's own.
	Custom *CustomMetrics
}

// CustomMetrics are metrics that models and the program publish. Its methods are
// safe for concurrent use.
type CustomMetrics struct{ all *metrics.Customs }

// NewCustomMetrics returns one without any.
func NewCustomMetrics() *CustomMetrics { return &CustomMetrics{metrics.NewCustoms()} }

// Family registers a family; see [backend.Host].
func (c *CustomMetrics) Family(f backend.MetricFamily) (release func(), err error) {
	return c.all.Register(f)
}

// Metric returns a metric of a family; see [backend.Host].
func (c *CustomMetrics) Metric(f backend.MetricFamily, labels map[string]string) (backend.Metric, error) {
	return c.all.Metric(f, labels)
}

func (c *CustomMetrics) shown() *metrics.Customs {
	if c == nil {
		return metrics.NewCustoms()
	}
	return c.all
}

// WriteMetrics writes all metrics of the server in the Prometheus text format.
func (s *Server) WriteMetrics(w io.Writer) error {
	if s.running == nil || s.running.metrics == nil {
		return ErrNotRunning
	}
	return s.running.metrics.Write(w)
}

func (s *Server) openMetrics(ctx context.Context, r *running, config metrics.Config) error {
	var counts func() *auth.Snapshot
	if r.guard != nil {
		counts = r.guard.Snapshot
	}
	var readings func() []gpu.Reading
	if r.gpus != nil && !s.Metrics.NoGPU {
		readings = r.gpus.Read
	}
	r.metrics = metrics.New(metrics.Options{
		GPUs: readings, Texts: r.engine.Texts(), Routings: r.routings, Auth: counts,
		Refusals: r.engine.Refusals(), Ledger: r.engine.Ledger(), Models: r.models,
		Customs: r.customs.List, Listeners: r.watchdog.Stuck, Resources: r.limiter.Usage, Cache: r.engine.CacheNumbers(),
		Demand:        r.engine.Demand(),
		DroppedTraces: r.tracer.Dropped, CPU: !s.Metrics.NoCPU, Config: config, Words: s.words(), ServerVersion: engine.Version,
	})
	if s.Metrics.Address == "" {
		return nil
	}
	l, err := listen.Open(ctx, s.Metrics.Address, false)
	if err != nil {
		return err
	}
	l = r.watchdog.Watch("Metrics Service", l, false)
	if l, err = listen.Secure(l, (*listen.TLS)(s.Metrics.TLS), 0, r.log); err != nil {
		return err
	}
	r.metricsHTTP = &http.Server{
		Handler: r.api.Guarded(auth.Metrics, r.metrics), ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute,
	}
	if r.dashboard != nil && s.Metrics.DashboardAddress == "" {
		r.metricsHTTP = r.dashboardServer(r.metricsHTTP.Handler)
	}
	r.quiet.Watch(r.metricsHTTP)
	r.serve("Metrics Service", l, r.metricsHTTP.Serve)
	return nil
}

// newObserver returns what makes the summaries that config asks for.
func newObserver(config metrics.Config) func() stats.Observer {
	return func() stats.Observer {
		if s := metrics.NewSummaries(config); s != nil {
			return s
		}
		return nil // not a nil *Summaries, which would be an observer
	}
}

// routings lists for the metrics what goes on under rules for versions.
func (r *running) routings() []metrics.Routing {
	all := r.engine.Routings()
	routings := make([]metrics.Routing, len(all))
	for i := range all {
		a := &all[i]
		routings[i] = metrics.Routing{Name: a.Name, Namespace: a.Namespace, Versions: a.Versions, Plan: a.Plan, Numbers: a.Numbers}
	}
	return routings
}

// models lists for the metrics the versions that are, or were, loaded.
func (r *running) models() []metrics.Model {
	all := r.engine.Numbers()
	models := make([]metrics.Model, len(all))
	for i, v := range all {
		summaries, _ := v.Observer.(*metrics.Summaries)
		models[i] = metrics.Model{
			Name: v.Name, Namespace: v.Namespace, Version: v.Version, Tags: v.Tags, Numbers: v.Numbers,
			LoadTime: v.LoadTime, Cached: v.Cached, Summaries: summaries, Stuck: v.Stuck, Hangs: v.Hangs, Failed: v.Failed,
			WorkerCPU: v.WorkerCPU, Workers: v.Workers,
		}
	}
	return models
}
