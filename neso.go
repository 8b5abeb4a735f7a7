// Package neso is the inference server as a library: what the neso command
// runs, in a Go program.
//
//	srv := &neso.Server{
//		ModelRepositories: []string{"models"},
//		Backends:          all.Drivers(all.Options{}),
//		HTTP:              neso.HTTP{Address: "localhost:8000"},
//	}
//	err := srv.Run(ctx) // serves until ctx ends, drains, closes what it started
//
// Front ends are optional: without an address none listens, and
// [Server.Handler] mounts the HTTP one in a mux of yours. Open neso.go first,
// then run.go; each front end has a file of its own (http.go, grpc.go, metrics.go,
// clouds.go).
package neso

import (
	"log/slog"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/engine"
)

// Version is the version of the server, as its metadata says it.
func Version() string { return engine.Version }

// Server is an inference server. Its fields are read once, by Start or Run;
// later changes have no effect. The zero value of each field is its default.
type Server struct {
	// ID is the server's name in its metadata; default "triton", which clients of
	// Triton expect.
	ID string
	// ModelRepositories are directories of models, or URIs of object stores
	// ("s3://bucket/path", "gs://bucket/path", "as://account/container/path").
	ModelRepositories []string
	// NoRepository allows a server without any: its models are bound by the
	// program, or come over the API.
	NoRepository bool
	// Backends run the models; see package backend/all.
	Backends []backend.Driver
	// BackendDirectory is where python-based and native backends lie.
	BackendDirectory string
	// Libraries runs repository agents and response caches that are libraries; see
	// package backend/all. nil knows those that are part of the server.
	Libraries backend.Libraries
	// RepositoryAgentDirectory is where libraries of repository agents lie.
	RepositoryAgentDirectory string
	// GPU says which GPUs models may use.
	GPU GPU
	// BackendSettings holds settings by backend name; "" holds those for all.
	BackendSettings map[string]map[string]string

	// RepositoryCacheDirectory keeps what is downloaded from object stores from one
	// start to the next; default a temporary directory.
	RepositoryCacheDirectory string

	// ControlMode is "none" (all models are loaded at start), "explicit" (the API
	// loads and unloads), "poll" (changes of the repositories are taken every
	// PollInterval) or "on-demand" (a request loads its model, see OnDemand); default
	// "none".
	ControlMode string
	// OnDemand says, in mode "on-demand", how much memory models may have and how long
	// requests wait for them.
	OnDemand OnDemand
	// PollInterval is the time between two looks in mode "poll"; 0 means never.
	// PollSettle is how long a changed directory must have stayed the same before
	// it is taken, at most PollInterval; 0 takes it at the first look.
	PollInterval, PollSettle time.Duration
	// RequireManifest takes only models whose directory has a manifest.sha256; one
	// that has is not loaded before it is what the manifest says, in any case.
	RequireManifest bool
	// StartupModels are loaded at start in the modes explicit and on-demand; "*" alone
	// means all.
	StartupModels []string
	// KeepGoing serves the models that load, when others do not. By default Start
	// fails and lists every failure.
	KeepGoing bool
	// LooseReadiness makes the server ready although models are not.
	LooseReadiness bool
	// DisableAutoComplete asks for complete configurations.
	DisableAutoComplete bool
	// ModelNamespacing allows models of one name in several repositories. Such a
	// name is ambiguous for clients; ensembles find those of their own repository.
	ModelNamespacing bool
	// ModelConfigName chooses <model>/configs/<name>.pbtxt where it exists.
	ModelConfigName string
	// LoadThreads is how many models load at the same time; default 4.
	LoadThreads int
	// LoadRetries is how often a failed load is tried again; default 0.
	LoadRetries int
	// RateLimit "execution_count" lets instances run only while the resources of
	// their rate_limiter are free; "off", the default, ignores them.
	RateLimit string
	// RateLimitResources say how much there is of each resource; default as much as
	// the instance needs that needs most. When any is given, only those named exist.
	RateLimitResources []RateLimitResource
	// HostPolicies bind workers and the sessions of ONNX Runtime: of each policy, by its name, the
	// settings "cpu-cores" (ranges of processors, 0-3,8-8) and "numa-node" (the
	// number of a node). An instance group names its host_policy, else that of its
	// kind counts: "cpu", "model" or "gpu_0". Only on Linux.
	HostPolicies map[string]map[string]string
	// HoldRequests makes the batcher of each model wait, once, until so many
	// requests are queued before it forms its first batch; for sequences in slots,
	// with HoldBacklog more that wait for one. Aids for tests; default 0, no wait.
	HoldRequests, HoldBacklog int
	// WarmupInStatistics counts warm-up runs in the statistics.
	WarmupInStatistics bool
	// StrictOutputs makes outputs of other datatypes and shapes than configured, and
	// missing ones, errors. Without it they pass, as with Triton, and the log says
	// so once for each. A model's parameter strict_outputs says otherwise.
	StrictOutputs bool

	// MaxQueuedBytes bounds the input bytes of all requests in the server; default
	// a quarter of the memory. MaxQueuedRequests bounds their number; default
	// 65536. Requests beyond are refused at once.
	MaxQueuedBytes, MaxQueuedRequests int64
	// SharedMemory says which clients may share memory with the server: "local"
	// (those on this machine, by a loopback address or a Unix socket), "always" or
	// "never"; default "local".
	SharedMemory string
	// ResponseCache keeps answers of models that enable it.
	ResponseCache ResponseCache

	// Trace says which requests are traced, and where their traces go.
	Trace Trace

	// ExitTimeout is how long Run waits for requests in flight after ctx ends;
	// default 30 s; with a negative one it does not wait.
	ExitTimeout time.Duration
	// DrainGrace is how long Run goes on serving after ctx ends, not ready, so that
	// balancers turn away; default 0.
	DrainGrace time.Duration
	// HangTimeout is after how long without progress a busy instance is interrupted
	// and replaced; default never.
	HangTimeout time.Duration
	// WatchInterval is how often listeners and instances are looked at; default 10 s,
	// negative never.
	WatchInterval time.Duration

	// AuthFile names the keys that clients must have, see docs/security.md; empty
	// asks for none. It is read again when it changes.
	AuthFile string
	// AdminAddress, "host:port" or "unix:/path", is the only place then where the
	// server can be changed: load and unload, settings, shared memory, binding. It
	// speaks HTTP, with the TLS of the HTTP front end. Empty means that every
	// listener serves these too.
	AdminAddress string
	// ReadableModelFiles lets other users of the machine read the files of load
	// requests, for workers that run as another user.
	ReadableModelFiles bool
	// RefuseModelFiles refuses loads that bring the model's files, and so its code,
	// whoever asks for them: clients, or a model.
	RefuseModelFiles bool
	// ModelLoads says whether models may load and unload others: "always" or
	// "never"; default "never" with an AdminAddress, else "always".
	ModelLoads string

	HTTP    HTTP
	GRPC    GRPC
	Metrics Metrics
	// Sagemaker and VertexAI are further listeners, in the forms of these clouds.
	Sagemaker Sagemaker
	VertexAI  VertexAI

	// OptionPrefix is what messages put before the name of a setting: "--" where it
	// is an option of a command. A setting's name is that of the option of the neso
	// command: max-queued-bytes for MaxQueuedBytes.
	OptionPrefix string

	// Logger takes the log; default that of Log, else slog.Default().
	Logger *slog.Logger
	// Log is the log whose settings clients read and change (/v2/logging); nil means
	// that they cannot. It is closed by who has opened it.
	Log *Log

	early   []earlyBind // Bind before Start
	running *running
}

// OnDemand configures control mode "on-demand". The zero value of each field is its
// default.
type OnDemand struct {
	// MemoryLimit is how many bytes of the machine's memory all models may have
	// together: those that nobody has used for the longest time leave for others.
	// Default any number.
	MemoryLimit int64
	// LoadTimeout is how long a request waits for its model; default a minute.
	LoadTimeout time.Duration
	// MaxWaiting is how many requests may wait at the same time; default 1024.
	MaxWaiting int
	// Loads is how many models are loaded at the same time; default half of the
	// processors.
	Loads int
	// MinResidency is how long a model that came in stays at least; default a second,
	// negative for none.
	MinResidency time.Duration
	// IdleTimeout is after how long without requests a model leaves; default never. A
	// model's parameter on_demand_idle_secs says otherwise.
	IdleTimeout time.Duration
}

// ResponseCache configures the response cache; the zero value is none.
type ResponseCache struct {
	// Name is "local" (memory of this process), "redis", or that of a library in
	// Directory.
	Name, Directory string
	// Settings are those of --cache-config: "size" in bytes for "local"; "host",
	// "port" and more for "redis", see docs/models/response-cache.md.
	Settings map[string]string
	// Text is what a library is given in place of Settings, which are given as JSON;
	// empty means those.
	Text string
}
