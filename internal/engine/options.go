package engine

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/hostmemory"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/setting"
	"github.com/nesoserve/neso/internal/shm"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/internal/tracing"
	"github.com/nesoserve/neso/tensor"
)

// Options configure the server; the zero values are Triton's defaults.
type Options struct {
	model.ServerSettings
	ID           string // server name in metadata, default "triton"
	Repositories []string
	// NoRepository allows a server without a model repository, for one whose
	// models all come over the API or are bound by a program.
	NoRepository bool
	Backends     []backend.Driver
	BackendDir   string
	// AgentDir is what --repoagent-directory says.
	AgentDir string
	// BackendSettings holds --backend-config values by backend name; "" holds the
	// global ones.
	BackendSettings map[string]map[string]string
	ControlMode     string // "none", "explicit" or "poll"
	// Namespacing allows models of one name in several repositories.
	Namespacing bool
	// RequireManifest takes only models with a repository.Manifest.
	RequireManifest bool
	// PollInterval is the time between two looks at the repositories in mode
	// "poll"; 0 means never. PollSettle is how long a change must have been the
	// same before it is taken, at most PollInterval.
	PollInterval, PollSettle time.Duration
	StartupModels            []string
	ExitOnError              bool
	DisableAutoComplete      bool
	StrictReadiness          bool
	ModelConfigName          string
	LoadThreads              int // default 4
	LoadRetries              int
	// NewObserver makes what sees the successful requests of a version, besides
	// its statistics; it may be nil and may return nil.
	NewObserver func() stats.Observer
	// GPUs are those that models may use.
	GPUs gpu.Set
	// MaxQueuedBytes bounds the input bytes of all requests in the server; 0 means
	// a quarter of the memory that the process can have.
	MaxQueuedBytes int64
	// MaxQueuedRequests bounds their number; 0 means 65,536.
	MaxQueuedRequests int64
	// DrainTimeout bounds how long a replaced or unloaded version waits for its
	// requests; 0 means five minutes.
	DrainTimeout time.Duration
	// WatchInterval is how often the instances are looked at; 0 means ten seconds, a
	// negative one never.
	WatchInterval time.Duration
	// TempDir is where files of load requests are put; empty means the system's
	// place for temporary files.
	TempDir string
	// ReadableFiles lets other users of the machine read them.
	ReadableFiles bool
	// RefuseFiles refuses loads that bring the model's files, whoever asks for them;
	// RefuseModels refuses loads and unloads that models ask for.
	RefuseFiles, RefuseModels bool
	// RepositoryCache keeps what is downloaded from object stores from one start to
	// the next; empty means a temporary directory.
	RepositoryCache string
	// Cache is the name of the response cache, "local" or "redis", and
	// CacheSettings what --cache-config says to it; empty means none.
	Cache         string
	CacheSettings map[string]string
	// SharedMemory says which clients may share memory with the server.
	SharedMemory shm.Options
	// Allocator gives ordinary memory for tensors; nil means a pool of the
	// engine's own.
	Allocator tensor.Allocator
	// Tracer follows the sampled requests; nil means one that never samples any.
	// Whoever made it closes it, after the front ends.
	Tracer *tracing.Tracer
	Logger *slog.Logger
}

const defaultQueuedRequests = 65536

// fill sets defaults and reports what cannot be served.
func (o *Options) fill() error {
	if o.ID == "" {
		o.ID = "triton"
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
	default:
		return backend.Errorf(backend.InvalidArg, "invalid argument for %s", setting.Name("model-control-mode"))
	}
	if len(o.Repositories) == 0 && !o.NoRepository {
		return backend.Errorf(backend.InvalidArg, "%s must be specified", setting.Name("model-repository"))
	}
	if len(o.StartupModels) > 0 && o.ControlMode != "explicit" {
		return backend.Errorf(backend.InvalidArg, "Use of '%s' requires setting '%s=explicit' as well.", setting.Name("load-model"),
			setting.Name("model-control-mode"))
	}
	if len(o.StartupModels) > 1 {
		if slices.Contains(o.StartupModels, allModels) {
			return backend.Errorf(backend.InvalidArg, "Wildcard model name '*' must be the ONLY startup model if specified at all.")
		}
	}
	return nil
}

// allModels is the startup model that stands for all of them.
const allModels = "*"
