package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/deadlock"
	"github.com/nesoserve/neso/internal/generation"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/lane"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/lifecycle"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/ondemand"
	"github.com/nesoserve/neso/internal/recent"
	"github.com/nesoserve/neso/internal/refusals"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/responsecache"
	"github.com/nesoserve/neso/internal/shm"
	"github.com/nesoserve/neso/internal/tracing"
	"github.com/nesoserve/neso/tensor"
)

// Version is the server's version. Releases set it with
// -ldflags "-X github.com/nesoserve/neso/internal/engine.Version=...".
var Version = "0.1.0-dev"

// Engine is the running server.
type Engine struct {
	o     Options
	log   *slog.Logger
	state atomic.Uint32
	// continuing says that the server stops but sequences that have begun may go on.
	continuing atomic.Bool
	// leaving says that the server serves, but is about to stop: not ready.
	leaving   atomic.Bool
	parting   atomic.Bool // clients are asked to take new connections
	faults    faults
	admission *admission
	heavy     lane.Lane
	refusals  *refusals.Book
	recent    *recent.Book
	texts     generation.Book
	deadlocks deadlock.Detector
	repo      *repository.Repository
	unlisted  unlisted
	life      *lifecycle.Manager
	poller    *lifecycle.Poller   // nil but in control mode "poll"
	demand    *ondemand.Loader    // nil but in control mode "on-demand"
	pool      *memory.Pool        // nil when the allocator came with the options
	cache     responsecache.Store // nil without one
	shared    *shm.Registry

	endExternal, endInternal, abandonExternal, abandonInternal func(*infer.Request)
	growth                                                     func(*infer.Request, int64) *backend.Error

	watch   watch
	mirrors mirrors

	// failedIndex is the index as it was when models did not load and the start
	// failed.
	failedIndex atomic.Pointer[[]IndexEntry]

	stopping sync.Once
	stopped  chan struct{}
	closeErr error
}

// New makes an engine; nothing is loaded yet.
func New(o Options) (*Engine, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	e := &Engine{
		o: o, log: o.Logger, heavy: lane.New(), refusals: refusals.New(o.Logger), recent: recent.New(),
		admission: newAdmission(o.MaxQueuedBytes, o.MaxQueuedRequests, o.Words), shared: shm.New(o.SharedMemory),
		stopped: make(chan struct{}),
	}
	// The owner is the version that NewRequest has set.
	e.endInternal = func(r *infer.Request) { e.endRequest(r, false) }
	e.endExternal = func(r *infer.Request) { e.endRequest(r, true) }
	e.abandonInternal = func(r *infer.Request) { e.abandonRequest(r, false) }
	e.abandonExternal = func(r *infer.Request) { e.abandonRequest(r, true) }
	e.growth = e.grow
	if e.o.Allocator == nil {
		e.pool = memory.New(memory.Options{})
		e.o.Allocator = e.pool
	}
	if e.o.Tracer == nil {
		// Without a file or a collector nothing can fail, and nothing is ever traced.
		e.o.Tracer, _ = tracing.New(tracing.Config{Settings: tracing.Defaults(), Logger: o.Logger})
	}
	if err := e.openCache(); err != nil {
		return nil, err
	}
	e.mirrors.open(e)
	repo, err := repository.Open(repository.Options{
		Settings: o.Settings, Paths: o.Repositories,
		Patient: !o.ExitOnError && o.ControlMode != "none", // where nobody would ask again
	})
	if err != nil {
		if o.ExitOnError {
			e.closeCache()
			return nil, err
		}
		// The peer goes on without a repository then: not live, not ready, but there.
		o.Logger.Error(err.Error())
		e.state.Store(uint32(Failed))
		repo, _ = repository.Open(repository.Options{}) // without paths it cannot fail
	}
	e.repo = repo
	o.warnOfSettings()
	e.life = lifecycle.New(lifecycle.Options{
		LoadSettings: o.LoadSettings, Repository: repo, Backends: o.Backends, Libraries: o.Libraries, Host: &host{e}, Steps: steps{e},
		Cache:    e.cache,
		Refusals: e.refusals, Settings: e.o.settings, Allocator: e.o.Allocator, Logger: o.Logger,
	})
	switch o.ControlMode {
	case "poll":
		e.poller = lifecycle.NewPoller(e.life, o.PollInterval, o.PollSettle)
	case onDemand:
		e.demand = ondemand.New(ondemand.Options{Settings: o.OnDemand, Life: e.life, Repository: repo, Logger: o.Logger, Words: o.Words})
	}
	return e, nil
}

// Start loads the startup models. With ExitOnError it fails with all failures
// listed when one does not load; else the rest serves. A start that fails
// closes what it has opened.
func (e *Engine) Start(ctx context.Context) error {
	if e.State() == Failed {
		return nil // said in New, and not to be a reason to exit
	}
	e.watch.start(e)
	err := e.start(ctx)
	if err != nil {
		e.move(Failed)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedStart)
		defer cancel()
		_ = e.Close(end) // why the start failed says more
	}
	return err
}

// failedStart is how long the models of a failed start get to close.
const failedStart = 10 * time.Second

func (e *Engine) start(ctx context.Context) error {
	if e.loadsAll() {
		defer e.repo.Hold()()
	}
	if e.poller == nil { // else it says so
		for _, a := range e.repo.Away() {
			e.log.Error("model repository cannot be reached", "repository", a.Path, "models of the cache", a.Stands, "error", a.Err.Error())
		}
	}
	e.poller.Prime(ctx)
	names, err := e.startupModels(ctx)
	if err != nil {
		if e.o.ExitOnError {
			return err
		}
		e.log.Error(err.Error())
	}
	if paths := e.repo.Paths(); len(names) == 0 && err == nil && len(paths) > 0 && !e.startsEmpty() {
		e.log.Warn("there are no models in the model repositories", "repositories", paths)
	}
	end := e.tellProgress()
	failures := e.life.LoadAll(ctx, names)
	end()
	if len(failures) > 0 && e.o.ExitOnError {
		if index, err := e.Index(false); err == nil {
			e.failedIndex.Store(&index)
		}
		return reason.All(failures)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start given up: %w", err)
	}
	if !e.move(Ready) {
		return notReady()
	}
	e.poller.Start()
	e.demand.Start()
	return nil
}

// loadsAll reports whether the start loads all models that there are.
func (e *Engine) loadsAll() bool {
	return !e.startsEmpty() || len(e.o.StartupModels) == 1 && e.o.StartupModels[0] == allModels
}

// startsEmpty reports whether only the startup models are loaded at the start.
func (e *Engine) startsEmpty() bool { return e.o.ControlMode == "explicit" || e.demand != nil }

func (e *Engine) startupModels(ctx context.Context) ([]string, error) {
	if !e.loadsAll() {
		return e.o.StartupModels, nil
	}
	entries, err := e.repo.List(ctx)
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name
	}
	return names, err
}

// Load loads or reloads a model (control modes explicit and on-demand only). config is JSON or
// empty; files maps "1/model.onnx"-like paths to content.
func (e *Engine) Load(ctx context.Context, name, config string, files map[string][]byte) error {
	return e.load(ctx, lifecycle.Request{Name: name, Config: config, Files: files})
}

func (e *Engine) load(ctx context.Context, r lifecycle.Request) error {
	if err := e.controllable(); err != nil {
		return err
	}
	if e.o.RefuseFiles && len(r.Files) > 0 {
		e.refusals.Refused(refusals.ModelFiles, e.textNoFiles(), slog.String("model", r.Name))
		return backend.Errorf(backend.PermissionDenied, "%s", e.textNoFiles())
	}
	plain := make(map[string][]byte, len(r.Files))
	for path, content := range r.Files {
		// The parameter's name on the wire may come along.
		plain[strings.TrimPrefix(path, "file:")] = content
	}
	r.Files = plain
	if e.demand != nil {
		return e.demand.Load(ctx, r)
	}
	return e.life.Load(ctx, r)
}

// What the operator of the server refuses is refused here, where every way of
// loading comes by; package lifecycle refuses configurations that name files
// outside of the model.
func (e *Engine) textNoFiles() string {
	return "this server takes no model files over the API (" + e.o.Words.Name("allow-model-files") + "=false)"
}

func (e *Engine) textNoModels() string {
	return "models may not load or unload models on this server (" +
		e.o.Words.Name("allow-model-loads") + "=false, the default with " + e.o.Words.Name("admin-address") + ")"
}

// refuseModels is the answer to a model that wants to load or unload, or nil.
func (e *Engine) refuseModels(model string) error {
	if !e.o.RefuseModels {
		return nil
	}
	e.refusals.Refused(refusals.ModelLoads, e.textNoModels(), slog.String("model", model))
	return backend.Errorf(backend.PermissionDenied, "%s", e.textNoModels())
}

// Unload unloads a model (control modes explicit and on-demand only), after the loads
// that are in the way, and returns before its requests have ended;
// with dependents also the models only it uses. Where models are loaded on demand it
// stays out until a Load.
func (e *Engine) Unload(ctx context.Context, name string, dependents bool) error {
	if err := e.controllable(); err != nil {
		return err
	}
	if e.demand != nil {
		return e.demand.Unload(name, func() error { return e.life.UnloadAfter(ctx, name, dependents) })
	}
	return e.life.UnloadAfter(ctx, name, dependents)
}

func (e *Engine) controllable() error {
	if e.State() != Ready {
		return notReady()
	}
	if !e.startsEmpty() {
		// The peer says this in mode none too.
		return backend.Errorf(backend.Unavailable, "explicit model load / unload is not allowed if polling is enabled")
	}
	return nil
}

// Allocator gives ordinary pooled memory, for what belongs to no model.
func (e *Engine) Allocator() tensor.Allocator { return e.o.Allocator }

// AllocatorOf returns the memory for inputs of a model's version, the latest for
// -1, or nil where there is none that is ready. It may be another one by the
// time of a request.
func (e *Engine) AllocatorOf(name string, version int64) tensor.Allocator {
	m := e.life.PinFor("", name, version)
	if m == nil {
		return nil
	}
	defer m.Unpin()
	return m.Allocator()
}

// Serves returns nil if a request for the model would find it now, or have it loaded,
// else the error that says why not. It takes nothing.
func (e *Engine) Serves(name string, version int64) error {
	m := e.life.PinFor("", name, version)
	switch {
	case m != nil:
		m.Unpin()
		return nil
	case e.demand != nil:
		return e.demand.Serves(name, version)
	default:
		return e.life.Explain(name, version)
	}
}

// SharedMemory holds the regions of client shared memory.
func (e *Engine) SharedMemory() *shm.Registry { return e.shared }

// Refusals notes what is refused for security.
func (e *Engine) Refusals() *refusals.Book { return e.refusals }

// Ledger counts what the server holds for its clients. Requests stand there from
// Resolve to their end; front ends count what comes before and after.
func (e *Engine) Ledger() *ledger.Ledger { return e.admission.ledger }

// Heavy is where front ends do what takes processors for long: one line for all of
// them.
func (e *Engine) Heavy() lane.Lane { return e.heavy }

// MaxQueuedBytes is the most input bytes that all requests may hold together.
func (e *Engine) MaxQueuedBytes() int64 { return e.o.MaxQueuedBytes }

// InterfaceVersion is the version that clients are told: that of the Triton whose
// interface this is, so that those who compare it with what they need see what is
// served. It has three numbers and nothing else, and its first one stays 2 as long
// as that interface does.
const InterfaceVersion = "2.51.0"

// Metadata describes the server.
type Metadata struct {
	Name, Version string
	Extensions    []string
}

// Metadata returns the server's name, version and protocol extensions.
func (e *Engine) Metadata() Metadata {
	return Metadata{Name: e.o.ID, Version: InterfaceVersion, Extensions: []string{
		// The peer's order; what is not here is not served yet.
		"classification", "sequence", "model_repository", "model_repository(unload_dependents)", "schedule_policy",
		"model_configuration", "system_shared_memory", "cuda_shared_memory", "binary_tensor_data", "parameters", "statistics", "trace", "logging",
	}}
}
