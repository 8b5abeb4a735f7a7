package neso

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/dashboard"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/grpcapi"
	"github.com/nesoserve/neso/internal/httpapi"
	"github.com/nesoserve/neso/internal/listen"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/metrics"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/tracing"
	"github.com/nesoserve/neso/internal/watchdog"
)

const defaultExitTimeout = 30 * time.Second

// running is what Start made; Close ends it.
type running struct {
	log       *slog.Logger
	pool      *memory.Pool
	limiter   *ratelimit.Limiter // nil without
	gpus      *gpu.Driver        // nil without
	tracer    *tracing.Tracer
	followers followers
	customs   *metrics.Customs
	engine    *engine.Engine
	api       *httpapi.Server
	metrics   *metrics.Metrics

	guard *auth.Guard // nil without keys

	http        httpServer
	metricsHTTP *http.Server
	admin       *http.Server

	dashboard     *dashboard.Server // nil without
	dashboardHTTP *http.Server      // of its own listener

	clouds    []*http.Server
	vertex    *httpapi.Vertex
	quiet     listen.Quiet // connections of all of them
	grpc      *grpcapi.Server
	watchdog  *watchdog.Watchdog
	listeners map[string]net.Listener // by front end

	serving sync.WaitGroup
	failed  chan error // the first front end that stopped by itself

	closing  sync.Once
	closeErr error
	timeout  time.Duration
}

// ErrNotRunning is returned by calls that need a started server.
var ErrNotRunning = errors.New("neso: the server is not running")

// Run starts the server, serves until ctx ends, drains, and closes what it
// started.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	return s.Wait(ctx)
}

// Start opens the listeners, which answer from now on, and loads the startup
// models. If it fails, everything it opened is closed. ctx bounds the start
// only. A server is started once.
func (s *Server) Start(ctx context.Context) error {
	if s.running != nil {
		return errors.New("neso: the server has been started before")
	}
	if err := s.check(); err != nil {
		return err
	}
	r := &running{log: s.logger(), listeners: map[string]net.Listener{}, failed: make(chan error, 1), timeout: s.ExitTimeout}
	s.running = r
	if r.timeout == 0 {
		r.timeout = defaultExitTimeout
	}
	r.watchdog = watchdog.New(r.log, cmp.Or(s.WatchInterval, engine.DefaultWatchInterval))
	err := s.open(ctx, r)
	if err == nil {
		err = s.bindEarly(ctx)
	}
	if err == nil {
		err = r.engine.Start(ctx)
	}
	if err == nil && r.vertex != nil {
		err = r.vertex.CheckModel()
	}
	if err != nil {
		return errors.Join(err, r.close())
	}
	r.watchdog.Start(r.engine.SetFault)
	return nil
}

// open makes the engine and the front ends, and lets them serve.
func (s *Server) open(ctx context.Context, r *running) error {
	config, warnings, err := metrics.ParseConfig(s.Metrics.Config)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		r.log.Warn("metrics configuration", "problem", w)
	}
	if r.tracer, err = s.Trace.tracer(r.log); err != nil {
		return err
	}
	r.pool, r.customs = memory.New(memory.Options{}), s.Metrics.Custom.shown()
	o := s.engineOptions(r, config)
	r.gpus, o.GPUs = s.GPU.open(r.log)
	if o.SharedMemory.Access, err = s.access(); err != nil {
		return err
	}
	if o.RateLimiter, err = s.rateLimiter(); err != nil {
		return err
	}
	r.limiter = o.RateLimiter
	if r.engine, err = engine.New(o); err != nil {
		return err
	}
	if r.guard, err = s.openGuard(r.log); err != nil {
		return err
	}
	if err := s.openHTTP(ctx, r); err != nil {
		return serviceError("HTTP", err)
	}
	if err := s.openGRPC(ctx, r); err != nil {
		return serviceError("GRPC", err)
	}
	if err := s.openDashboard(ctx, r); err != nil {
		return serviceError("Dashboard", err)
	}
	if err := s.openMetrics(ctx, r, config); err != nil {
		return serviceError("Metrics", err)
	}
	if err := s.openClouds(ctx, r); err != nil {
		return err
	}
	return nil
}

// serviceError says in the peer's words which front end did not start, and why.
func serviceError(name string, err error) error {
	return fmt.Errorf("failed to start %s service: %s - %w", name, backend.AsError(err).Code, err)
}

// serve runs a front end on its listener until it is closed.
func (r *running) serve(name string, l net.Listener, serve func(net.Listener) error) {
	r.listeners[name] = l
	r.log.Info(fmt.Sprintf("Started %s at %s", name, l.Addr())) //nolint:sloglint // Triton's line, which scripts wait for
	r.serving.Go(func() {
		if err := serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case r.failed <- fmt.Errorf("%s: %w", name, err):
			default: // another one has failed before
			}
		}
	})
}

// Wait serves until ctx ends or a front end fails, then closes the server.
func (s *Server) Wait(ctx context.Context) error {
	r := s.running
	if r == nil {
		return ErrNotRunning
	}
	var failure error
	select {
	case <-ctx.Done():
		failure = r.leave(s.DrainGrace)
	case failure = <-r.failed:
	}
	return errors.Join(failure, r.close())
}

// leave serves on for the grace, not ready. It ends early when a front end fails.
func (r *running) leave(grace time.Duration) error {
	if grace <= 0 {
		return nil
	}
	r.engine.Leave()
	r.log.Info("not ready from now on, still serving", "seconds", grace.Seconds())
	// Balancers have noticed by the half of it: connections that move then move to
	// others, and none is in use when calls are refused.
	half := time.NewTimer(grace / 2)
	defer half.Stop()
	t := time.NewTimer(grace)
	defer t.Stop()
	for {
		select {
		case <-half.C:
			r.part()
		case <-t.C:
			return nil
		case failure := <-r.failed:
			return failure
		}
	}
}

// part asks clients to take new connections; all that comes is served.
func (r *running) part() {
	r.engine.Part()
	if r.grpc != nil {
		r.grpc.Part()
	}
}

// Close ends the server as Wait does: not ready, no new requests, those in
// flight answered for at most ExitTimeout, models unloaded, listeners closed.
// It may be called more than once.
func (s *Server) Close() error {
	if s.running == nil {
		return nil
	}
	return s.running.close()
}

// CloseWithin is Close with another ExitTimeout.
func (s *Server) CloseWithin(timeout time.Duration) error {
	if s.running == nil {
		return nil
	}
	return s.running.closeWithin(timeout)
}

func (r *running) close() error { return r.closeWithin(r.timeout) }

func (r *running) closeWithin(timeout time.Duration) error {
	r.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		r.watchdog.End()
		var drained error
		var wg sync.WaitGroup
		if r.engine != nil {
			away := sync.OnceFunc(func() { r.turnAway(ctx, &wg) })
			drained = r.engine.CloseWith(ctx, away)
			away() // an engine that was closed before has not called it
		}
		if r.dashboard != nil {
			r.dashboard.Close()
		}
		r.quiet.Close()
		front := r.httpServers()
		for _, h := range []*http.Server{r.metricsHTTP, r.dashboardHTTP} {
			if h != nil {
				front = append(front, h)
			}
		}
		for _, h := range front {
			wg.Go(func() {
				if h.Shutdown(ctx) != nil {
					_ = h.Close() // the time is up: connections are cut
				}
			})
		}
		wg.Wait()
		r.awaitCalls()
		for _, l := range r.listeners {
			_ = l.Close() // closed by its server, unless that never ran
		}
		r.serving.Wait()
		r.closeTraces()
		if r.pool != nil {
			r.pool.Close()
		}
		r.gpus.Close()
		r.closeErr = drained
	})
	return r.closeErr
}

// lastWait bounds how long the end waits for calls of gRPC that were cut off. The
// engine has answered them by then: only a handler that never returns takes so long.
const lastWait = time.Second

func (r *running) awaitCalls() {
	if r.grpc == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWait)
	defer cancel()
	if r.grpc.Shutdown(ctx) != nil {
		r.log.Warn("calls of gRPC have not ended with the server")
	}
}

// httpServer is an http.Server, or the one that serves inference past it.
type httpServer interface {
	Serve(l net.Listener) error
	SetKeepAlivesEnabled(on bool)
	Shutdown(ctx context.Context) error
	Close() error
}

// httpServers returns the front ends over HTTP that are open.
func (r *running) httpServers() (open []httpServer) {
	for _, h := range r.clouds {
		open = append(open, h)
	}
	if r.http != nil {
		open = append(open, r.http)
	}
	if r.admin != nil {
		open = append(open, r.admin)
	}
	return open
}

// turnAway has clients take their connections elsewhere, while what is in flight
// goes on: HTTP says so with each reply and goes on answering, that the server
// stops; gRPC says GOAWAY and takes no new connections. wg waits for gRPC.
func (r *running) turnAway(ctx context.Context, wg *sync.WaitGroup) {
	for _, h := range r.httpServers() {
		h.SetKeepAlivesEnabled(false)
	}
	if r.grpc != nil {
		wg.Go(func() { _ = r.grpc.Shutdown(ctx) }) // an overrun is in the engine's error
	}
}
