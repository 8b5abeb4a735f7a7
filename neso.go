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
// then run.go.
package neso

import (
	"log/slog"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/ratelimit"
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
	// RepositoryAgentDirectory is named by the error of a repository agent that is
	// not part of the server.
	RepositoryAgentDirectory string
	// GPU says which GPUs models may use.
	GPU GPU
	// BackendSettings holds settings by backend name; "" holds those for all.
	BackendSettings map[string]map[string]string

	// RepositoryCacheDirectory keeps what is downloaded from object stores from one
	// start to the next; default a temporary directory.
	RepositoryCacheDirectory string

	// ControlMode is "none" (all models are loaded at start), "explicit" (the API
	// loads and unloads) or "poll" (changes of the repositories are taken every
	// PollInterval); default "none".
	ControlMode string
	// PollInterval is the time between two looks in mode "poll"; 0 means never.
	// PollSettle is how long a changed directory must have stayed the same before
	// it is taken, at most PollInterval; 0 takes it at the first look.
	PollInterval, PollSettle time.Duration
	// RequireManifest takes only models whose directory has a manifest.sha256; one
	// that has is not loaded before it is what the manifest says, in any case.
	RequireManifest bool
	// StartupModels are loaded at start in explicit mode; "*" alone means all.
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
	// WarmupInStatistics counts warm-up runs in the statistics.
	WarmupInStatistics bool
	// UncheckedOutputs lets outputs of other datatypes and shapes than configured
	// pass, and missing ones, as Triton does. Without it they are errors.
	UncheckedOutputs bool

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
	// default 30 s.
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

	// Logger takes the log; default slog.Default(). The neso command gives one
	// whose settings change over the API.
	Logger *slog.Logger
	// log is what Logger belongs to, if it is ours.
	log *logging.Log

	early   []earlyBind // Bind before Start
	running *running
}

// RateLimitResource is how many units there are of a resource that instances
// need to run.
type RateLimitResource struct {
	Name  string
	Count int
	// Device is the number of the one device that has them, or EveryDevice. For a
	// resource that all devices share it is of no importance.
	Device int
}

// EveryDevice says that each device has the resource.
const EveryDevice = ratelimit.EveryDevice

// ResponseCache configures the response cache; the zero value is none.
type ResponseCache struct {
	// Name is "local" (memory of this process) or "redis".
	Name string
	// Settings are those of --cache-config: "size" in bytes for "local"; "host",
	// "port" and more for "redis", see docs/response-cache.md.
	Settings map[string]string
}

// HTTP configures the HTTP/REST front end.
type HTTP struct {
	// Address is "host:port" (port 0: any free one), "unix:/path", or empty for no
	// listener.
	Address string
	// ReusePort lets several processes listen on the same port.
	ReusePort bool
	// MaxInputSize bounds the JSON of a request, an input given as JSON, a raw
	// input and a decompressed body; default 64 MiB. Binary tensors have the bound
	// of MaxQueuedBytes.
	MaxInputSize int64
	// HeaderForwardPattern is a regular expression; matching headers become
	// request parameters.
	HeaderForwardPattern string
	// Join hands out a socket and a token with which another process can bind
	// models, see package backend/bound; nil refuses.
	Join func() (socket, token string, err error)
	// TrustedHosts are names by which a proxy on this machine, or a page in a
	// browser, knows the server, as patterns with `*`; without them requests that
	// change it, and come from a page or for an unknown name, are refused.
	TrustedHosts []string
	// TLS makes the listener speak HTTPS; nil means plain text.
	TLS *TLS
	// Restricted holds the header that requests of a category must bring. The
	// categories are those of --http-restricted-api.
	Restricted map[string]Restriction
	// HeaderTimeout, ReadTimeout and IdleTimeout bound how long a client may take
	// for the headers (default ReadTimeout), for the whole request (default 1 min,
	// for large bodies the time that 16 KiB/s need on top) and between requests
	// (default 10 min).
	HeaderTimeout, ReadTimeout, IdleTimeout time.Duration
	// MaxConnectionAge is after how long a connection is asked to end with its next
	// reply (Connection: close), give or take a tenth; default never.
	MaxConnectionAge time.Duration
}

// Sagemaker is the form that Amazon SageMaker's containers have: /ping,
// /invocations and /models.
type Sagemaker struct {
	// Address is "host:port", or empty for no listener.
	Address string
	// Model answers /invocations.
	Model string
	// LivePing makes /ping tell of liveness rather than readiness.
	LivePing bool
	// InferenceType of invocations is "infer", "generate" or "generate_stream";
	// default "infer".
	InferenceType string
	// Root is where the cloud puts models; default /opt/ml/models.
	Root string
}

// VertexAI is the form that Google Vertex AI's containers have.
type VertexAI struct {
	// Address is "host:port", or empty for no listener.
	Address string
	// PredictRoute and HealthRoute are the paths the cloud has chosen.
	PredictRoute, HealthRoute string
	// Model answers predictions; empty means the only one there is. It must be
	// there at the start, unless NoRepository lets models come later.
	Model string
}

// Restriction is a header, or a key of gRPC metadata, and the value it must have.
type Restriction struct{ Key, Value string }

// GRPC configures the gRPC front end.
type GRPC struct {
	// Address is "host:port" (port 0: any free one), "unix:/path", or empty for no
	// listener.
	Address string
	// ReusePort lets several processes listen on the same port.
	ReusePort bool
	// HeaderForwardPattern is a regular expression; matching metadata become
	// request parameters.
	HeaderForwardPattern string
	// TLS secures the listener; nil means plain text.
	TLS *TLS
	// Join hands out a socket and a token with which another process can bind
	// models, see package backend/bound; nil refuses.
	Join func() (socket, token string, err error)
	// Restricted holds the metadata that calls of a category must bring. The
	// categories are those of --grpc-restricted-protocol.
	Restricted map[string]Restriction
	// Compression of inference responses: "none", "low", "medium" or "high".
	Compression string
	// KeepaliveTime is the silence after which the server pings (default 2 h),
	// KeepaliveTimeout how long it waits for the answer (default 20 s).
	KeepaliveTime, KeepaliveTimeout time.Duration
	// PingsWithoutCalls allows client pings when no call is in flight, and
	// MinPingInterval (default 5 min) is the least time between them.
	PingsWithoutCalls bool
	MinPingInterval   time.Duration
	// MaxConnectionAge ends connections (default never), after
	// MaxConnectionAgeGrace by force.
	MaxConnectionAge, MaxConnectionAgeGrace time.Duration
	// NoReflection leaves out server reflection, which tells clients such as grpcurl
	// the services and their messages.
	NoReflection bool
	// MaxMessageSize bounds one message in bytes; default MaxQueuedBytes, and 2 GiB
	// at most. MaxStreams bounds the calls of one connection (default 16384):
	// each may hold a message that no model has admitted yet.
	MaxMessageSize int64
	MaxStreams     uint32
}

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
