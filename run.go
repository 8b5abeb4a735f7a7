package neso

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/grpcapi"
	"github.com/nesoserve/neso/internal/httpapi"
	"github.com/nesoserve/neso/internal/httpapi/transport"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/metrics"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/tracing"
)

const defaultExitTimeout = 30 * time.Second

// running is what Start made; Close ends it.
type running struct {
	log     *slog.Logger
	pool    *memory.Pool
	limiter *ratelimit.Limiter // nil without
	gpus    *gpu.Driver        // nil without
	tracer  *tracing.Tracer
	engine  *engine.Engine
	api     *httpapi.Server
	metrics *metrics.Metrics

	guard *auth.Guard // nil without keys

	http        *transport.Server
	metricsHTTP *http.Server
	admin       *http.Server
	clouds      []*http.Server
	vertex      *httpapi.Vertex
	quiet       quiet // connections of all of them
	grpc        *grpcapi.Server
	watchdog    *watchdog
	listeners   map[string]net.Listener // by front end

	serving sync.WaitGroup
	failed  chan error // the first front end that stopped by itself

	closing  sync.Once
	closeErr error
	timeout  time.Duration
}

// UseLog makes the server log into l and show its settings over the API.
func (s *Server) UseLog(l *logging.Log) { s.log, s.Logger = l, l.Logger() }

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
	r := &running{log: s.Logger, listeners: map[string]net.Listener{}, failed: make(chan error, 1), timeout: s.ExitTimeout}
	s.running = r
	if r.log == nil {
		r.log = slog.Default()
	}
	if r.timeout == 0 {
		r.timeout = defaultExitTimeout
	}
	r.watchdog = newWatchdog(s, r)
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
	r.watchdog.engine = r.engine
	r.watchdog.start()
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
	r.pool = memory.New(memory.Options{})
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
		return fmt.Errorf("failed to start HTTP service: %w", err)
	}
	if err := s.openGRPC(ctx, r); err != nil {
		return fmt.Errorf("failed to start GRPC service: %w", err)
	}
	if err := s.openMetrics(ctx, r, config); err != nil {
		return fmt.Errorf("failed to start Metrics service: %w", err)
	}
	if err := s.openClouds(ctx, r); err != nil {
		return err
	}
	return nil
}

func (s *Server) openHTTP(ctx context.Context, r *running) error {
	var err error
	restricted := map[httpapi.Category]httpapi.Restriction{}
	for category, must := range s.HTTP.Restricted {
		restricted[httpapi.Category(category)] = httpapi.Restriction{Header: must.Key, Value: must.Value}
	}
	r.api, err = httpapi.New(httpapi.Options{
		Restricted: restricted, Join: s.HTTP.Join, TrustedHosts: s.HTTP.TrustedHosts,
		Guard: r.guard, ManagedElsewhere: s.AdminAddress != "",
		Engine: r.engine, MaxInputSize: s.HTTP.MaxInputSize, HeaderForwardPattern: s.HTTP.HeaderForwardPattern,
		Log: s.log, Logger: r.log, MaxConnectionAge: s.HTTP.MaxConnectionAge, HeaderTimeout: s.HTTP.HeaderTimeout, ReadTimeout: s.HTTP.ReadTimeout, IdleTimeout: s.HTTP.IdleTimeout,
	})
	if err == nil {
		err = s.openAdmin(ctx, r)
	}
	if err != nil || s.HTTP.Address == "" {
		return err
	}
	l, err := listen(ctx, s.HTTP.Address, s.HTTP.ReusePort)
	if err != nil {
		return err
	}
	l = r.watchdog.watch("HTTPService", l, s.HTTP.ReusePort)
	if l, err = secure(l, s.HTTP.TLS, r.log); err != nil {
		return err
	}
	r.http = r.api.Transport()
	r.quiet.watch(r.http.Server)
	r.serve("HTTPService", l, r.http.Serve)
	return nil
}

func (s *Server) openGRPC(ctx context.Context, r *running) error {
	if s.GRPC.Address == "" {
		return nil
	}
	secured, err := serverTLS(s.GRPC.TLS, r.log, "h2")
	if err != nil {
		return err
	}
	restricted := map[string]grpcapi.Restriction{}
	for category, must := range s.GRPC.Restricted {
		restricted[category] = grpcapi.Restriction(must)
	}
	r.grpc, err = grpcapi.New(grpcapi.Options{
		Restricted: restricted, TLS: secured, Join: s.GRPC.Join,
		Guard: r.guard, ManagedElsewhere: s.AdminAddress != "",
		Engine: r.engine, Log: s.log, Logger: r.log, ResponseCompression: s.GRPC.Compression, HeaderForwardPattern: s.GRPC.HeaderForwardPattern,
		KeepaliveTime: s.GRPC.KeepaliveTime, KeepaliveTimeout: s.GRPC.KeepaliveTimeout, KeepalivePermitWithoutCalls: s.GRPC.PingsWithoutCalls,
		MinRecvPingInterval: s.GRPC.MinPingInterval, MaxConnectionAge: s.GRPC.MaxConnectionAge, MaxConnectionAgeGrace: s.GRPC.MaxConnectionAgeGrace,
		NoReflection: s.GRPC.NoReflection, MaxMessageSize: s.GRPC.MaxMessageSize, MaxStreams: s.GRPC.MaxStreams,
	})
	if err != nil {
		return err
	}
	l, err := listen(ctx, s.GRPC.Address, s.GRPC.ReusePort)
	if err != nil {
		return err
	}
	l = r.watchdog.watch("GRPCInferenceService", l, s.GRPC.ReusePort)
	r.serve("GRPCInferenceService", l, r.grpc.Serve)
	return nil
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
		GPUs: readings, Auth: counts, Models: r.models, Customs: r.engine.CustomMetrics, Listeners: r.watchdog.Stuck, Resources: r.limiter.Usage, Cache: r.engine.CacheNumbers(), DroppedTraces: r.tracer.Dropped, CPU: !s.Metrics.NoCPU, Config: config, ServerVersion: engine.Version,
	})
	if s.Metrics.Address == "" {
		return nil
	}
	l, err := listen(ctx, s.Metrics.Address, false)
	if err != nil {
		return err
	}
	l = r.watchdog.watch("Metrics Service", l, false)
	if l, err = secure(l, s.Metrics.TLS, r.log); err != nil {
		return err
	}
	r.metricsHTTP = &http.Server{Handler: r.api.Guarded(auth.Metrics, r.metrics), ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	r.quiet.watch(r.metricsHTTP)
	r.serve("Metrics Service", l, r.metricsHTTP.Serve)
	return nil
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
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case failure := <-r.failed:
		return failure
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

func (r *running) close() error {
	r.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
		defer cancel()
		r.watchdog.end()
		var drained error
		var wg sync.WaitGroup
		if r.engine != nil {
			away := sync.OnceFunc(func() { r.turnAway(ctx, &wg) })
			drained = r.engine.CloseWith(ctx, away)
			away() // an engine that was closed before has not called it
		}
		r.quiet.close()
		front := r.httpServers()
		if r.metricsHTTP != nil {
			front = append(front, r.metricsHTTP)
		}
		for _, h := range front {
			wg.Go(func() {
				if h.Shutdown(ctx) != nil {
					_ = h.Close() // the time is up: connections are cut
				}
			})
		}
		wg.Wait()
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

// httpServer is an http.Server, or the one that serves inference past it.
type httpServer interface {
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
