package neso

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/nesoserve/neso/internal/dashboard"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/httpapi"
	"github.com/nesoserve/neso/internal/listen"
)

// openDashboard makes the dashboard, and opens its listener where it has one of its
// own.
func (s *Server) openDashboard(ctx context.Context, r *running) error {
	own := s.Metrics.DashboardAddress
	if s.Metrics.NoDashboard || s.Metrics.Address == "" && own == "" {
		return nil
	}
	o := dashboard.Options{
		API: r.api, Engine: r.engine, Log: s.Log.shown(), Cache: r.engine.CacheNumbers(),
		Keys: r.guard != nil, Version: engine.Version, TLS: s.HTTP.TLS != nil,
		Open: own != "" || r.guard != nil || s.Metrics.TLS != nil && s.Metrics.TLS.ClientCA != "",
	}
	if r.gpus != nil && !s.Metrics.NoGPU {
		o.GPUs = r.gpus.Read
	}
	for category := range s.HTTP.Restricted {
		o.NoConfigs = o.NoConfigs || httpapi.Category(category) == httpapi.ModelConfig
	}
	if l := r.listeners[httpService]; l != nil {
		o.HTTP = l.Addr()
	}
	var err error
	r.dashboard, err = dashboard.New(o)
	if err != nil || own == "" {
		return err
	}
	l, err := listen.Open(ctx, own, false)
	if err != nil {
		return fmt.Errorf("dashboard address: %w", err)
	}
	l = r.watchdog.Watch("Dashboard", l, false)
	if l, err = listen.Secure(l, (*listen.TLS)(s.Metrics.TLS), 0, r.log); err != nil {
		return err
	}
	r.dashboardHTTP = r.dashboardServer(http.NotFoundHandler())
	r.quiet.Watch(r.dashboardHTTP)
	r.serve("Dashboard", l, r.dashboardHTTP.Serve)
	return nil
}

// dashboardServer returns a server for the dashboard and what stands beside it.
func (r *running) dashboardServer(next http.Handler) *http.Server {
	h := r.api.HTTPServer()
	h.Handler, h.ReadHeaderTimeout, h.IdleTimeout = r.dashboard.Beside(next), 10*time.Second, 2*time.Minute
	return h
}
