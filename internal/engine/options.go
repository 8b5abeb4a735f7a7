package engine

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/hostmemory"
	"github.com/nesoserve/neso/internal/lifecycle"
	"github.com/nesoserve/neso/internal/metrics"
	"github.com/nesoserve/neso/internal/ondemand"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/shm"
	"github.com/nesoserve/neso/internal/tracing"
	"github.com/nesoserve/neso/tensor"
)

// Options configure the server; the zero values are Triton's defaults. What is
// embedded goes to its users whole.
type Options struct {
	lifecycle.LoadSettings
	repository.Settings
	ID           string // server name in metadata, default "triton"
	Repositories []string
	// NoRepository allows a server without a model repository, for one whose
	// models all come over the API or are bound by a program.
	NoRepository bool
	Backends     []backend.Driver
	// Libraries runs repository agents and response caches that are libraries; nil
	// where the server cannot.
	Libraries  backend.Libraries
	BackendDir string
	// BackendSettings holds --backend-config values by backend name; "" holds the
	// global ones.
	BackendSettings map[string]map[string]string
	ControlMode     string // "none", "explicit", "poll" or "on-demand"
	// OnDemand says what is loaded on demand, and what leaves.
	OnDemand ondemand.Settings
	// PollInterval is the time between two looks at the repositories in mode
	// "poll"; 0 means never. PollSettle is how long a change must have been the
	// same before it is taken, at most PollInterval.
	PollInterval, PollSettle time.Duration
	StartupModels            []string
	ExitOnError              bool
	StrictReadiness          bool
	// MaxQueuedBytes bounds the input bytes of all requests in the server; 0 means
	// a quarter of the memory that the process can have.
	MaxQueuedBytes int64
	// MaxQueuedRequests bounds their number; 0 means 65,536.
	MaxQueuedRequests int64
	// WatchInterval is how often the instances are looked at; 0 means ten seconds, a
	// negative one never.
	WatchInterval time.Duration
	// RefuseFiles refuses loads that bring the model's files, whoever asks for them;
	// RefuseModels refuses loads and unloads that models ask for.
	RefuseFiles, RefuseModels bool
	// Cache is the name of the response cache, "local", "redis" or that of a library in
	// CacheLibraries, and CacheSettings what --cache-config says to it; empty means none.
	Cache, CacheLibraries string
	CacheSettings         map[string]string
	// CacheText is what a library is told in place of CacheSettings; empty means those.
	CacheText string
	// SharedMemory says which clients may share memory with the server.
	SharedMemory shm.Options
	// Customs takes the metrics that backends publish; nil means one that nobody
	// reads.
	Customs *metrics.Customs
	// Allocator gives ordinary memory for tensors; nil means a pool of the
	// engine's own.
	Allocator tensor.Allocator
	// Documents answers what backends ask of the server, but for backend.AboutLive,
	// AboutReady, AboutLabels and AboutService; nil means that it is not there.
	Documents func(q backend.Question) ([]byte, error)
	// Tracer follows the sampled requests; nil means one that never samples any.
	// Whoever made it closes it, after the front ends.
	Tracer *tracing.Tracer
	// Followers are the requests that a program in this process follows; nil means none.
	Followers Followers
	Logger    *slog.Logger
}

const defaultQueuedRequests = 65536

// fill sets defaults and reports what cannot be served.
func (o *Options) fill() error {
	if o.ID == "" {
		o.ID = "triton"
	}
	if o.Customs == nil {
		o.Customs = metrics.NewCustoms()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LoadThreads == 0 {
		o.LoadThreads = 4
	}
	if o.WatchInterval == 0 {
		o.WatchInterval = DefaultWatchInterval
	}
	if o.MaxQueuedRequests <= 0 {
		o.MaxQueuedRequests = defaultQueuedRequests
	}
	if o.MaxQueuedBytes <= 0 {
		o.MaxQueuedBytes = hostmemory.Available() / 4
	}
	switch o.ControlMode = strings.ToLower(o.ControlMode); o.ControlMode {
	case "", "none":
		o.ControlMode = "none"
	case "explicit", "poll":
	case onDemand:
		o.LoadPatience = o.OnDemand.Patience()
		if o.Namespacing {
			return backend.Errorf(backend.InvalidArg, "%s cannot be together with %s=%s: a request names a model, and none of its repositories",
				o.Words.Name("model-namespacing"), o.Words.Name("model-control-mode"), onDemand)
		}
	default:
		return backend.Errorf(backend.InvalidArg, "invalid argument for %s", o.Words.Name("model-control-mode"))
	}
	if len(o.Repositories) == 0 && !o.NoRepository {
		return backend.Errorf(backend.InvalidArg, "%s must be specified", o.Words.Name("model-repository"))
	}
	if err := o.OnDemand.Check(o.Words); err != nil {
		return err
	}
	if len(o.StartupModels) > 0 && o.ControlMode != "explicit" && o.ControlMode != onDemand {
		return backend.Errorf(backend.InvalidArg, "Use of '%s' requires setting '%s=explicit' as well.", o.Words.Name("load-model"),
			o.Words.Name("model-control-mode"))
	}
	if len(o.StartupModels) > 1 {
		if slices.Contains(o.StartupModels, allModels) {
			return backend.Errorf(backend.InvalidArg, "Wildcard model name '*' must be the ONLY startup model if specified at all.")
		}
	}
	return nil
}

// onDemand is the control mode that loads a model when a request wants it.
const onDemand = "on-demand"

// allModels is the startup model that stands for all of them.
const allModels = "*"
