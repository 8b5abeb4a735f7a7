package neso

import (
	"context"
	"net/http"
	"time"

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
		GPUs: readings, Auth: counts, Refusals: r.engine.Refusals(), Ledger: r.engine.Ledger(), Models: r.models,
		Customs: r.customs.List, Listeners: r.watchdog.Stuck, Resources: r.limiter.Usage, Cache: r.engine.CacheNumbers(),
		DroppedTraces: r.tracer.Dropped, CPU: !s.Metrics.NoCPU, Config: config, ServerVersion: engine.Version,
	})
	if s.Metrics.Address == "" {
		return nil
	}
	l, err := listen.Open(ctx, s.Metrics.Address, false)
	if err != nil {
		return err
	}
	l = r.watchdog.Watch("Metrics Service", l, false)
	if l, err = listen.Secure(l, (*listen.TLS)(s.Metrics.TLS), r.log); err != nil {
		return err
	}
	r.metricsHTTP = &http.Server{
		Handler: r.api.Guarded(auth.Metrics, r.metrics), ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute,
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

// models lists for the metrics the versions that are, or were, loaded.
func (r *running) models() []metrics.Model {
	all := r.engine.Numbers()
	models := make([]metrics.Model, len(all))
	for i, v := range all {
		summaries, _ := v.Observer.(*metrics.Summaries)
		models[i] = metrics.Model{
			Name: v.Name, Namespace: v.Namespace, Version: v.Version, Tags: v.Tags, Numbers: v.Numbers,
			LoadTime: v.LoadTime, Cached: v.Cached, Summaries: summaries, Stuck: v.Stuck, Hangs: v.Hangs, Failed: v.Failed,
		}
	}
	return models
}
