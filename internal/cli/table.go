package cli

import (
	"fmt"
	"math"
	"time"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/internal/cli/hostpolicy"
)

// Reasons why an option has no effect.
const (
	noGPU     = "this server has no use for such memory"
	noThreads = "connections are served by goroutines, there is no pool to size"
)

// serveTable lists every option: all of tritonserver's under their own names,
// then ours. Defaults are in defaults().
func serveTable() []option { return append(mainTable(), onDemandTable()...) }

func mainTable() []option {
	return []option{
		{name: "help", group: groupGlobal, help: "Print usage", set: func(o *serveOptions, _ string) error { o.help = true; return nil }},

		{
			name: "id", kind: "string", group: groupServer, help: "Identifier for this server.",
			set: stringVar(func(o *serveOptions) *string { return &o.server.ID }),
		},
		{
			name: "exit-timeout-secs", kind: "integer", group: groupServer,
			help: "Timeout (in seconds) when exiting to wait for in-flight inferences to finish. After the timeout expires the server exits even " +
				"if inferences are still in flight.", set: func(o *serveOptions, s string) error {
				v, err := parseInt(s)
				o.server.ExitTimeout = time.Duration(v) * time.Second
				if v <= 0 {
					o.server.ExitTimeout = -1 // 0 is the default of the field
				}
				return err
			},
		},

		{
			name: "log-verbose", kind: "integer", group: groupLogging,
			help: "Set verbose logging level. Zero (0) disables verbose logging and values >= 1 enable verbose logging; 1 also prints a line per " +
				"request.", set: setVerbose,
		},
		{
			name: "log-info", kind: "boolean", group: groupLogging, help: "Enable/disable info-level logging.",
			set: notVar(func(o *serveOptions) *bool { return &o.log.NoInfo }),
		},
		{
			name: "log-warning", kind: "boolean", group: groupLogging, help: "Enable/disable warning-level logging.",
			set: notVar(func(o *serveOptions) *bool { return &o.log.NoWarnings }),
		},
		{
			name: "log-error", kind: "boolean", group: groupLogging, help: "Enable/disable error-level logging.",
			set: notVar(func(o *serveOptions) *bool { return &o.log.NoErrors }),
		},
		{
			name: "log-format", kind: "string", group: groupLogging,
			help: "Set the logging format: \"default\", \"ISO8601\", or \"json\" (one JSON object a line).", set: setLogFormat,
		},
		{
			name: "log-file", kind: "string", group: groupLogging,
			help: "Set the name of the log output file. If specified, log outputs are appended to this file, otherwise they go to the console.",
			set:  stringVar(func(o *serveOptions) *string { return &o.log.File }),
		},

		{
			name: "model-repository", kind: "string", group: groupRepository,
			help: "Path to a model repository directory, or the URI of one in an object store: s3://bucket/path, " +
				"s3://http://host:port/bucket/path, gs://bucket/path, as://account/container/path. It may be specified multiple times.",
			set: listVar(func(o *serveOptions) *[]string { return &o.server.ModelRepositories }),
		},
		{
			name: "model-store", kind: "string", group: groupRepository, help: "Equivalent to --model-repository.",
			set: listVar(func(o *serveOptions) *[]string { return &o.server.ModelRepositories }),
		},
		{
			name: "exit-on-error", kind: "boolean", group: groupRepository,
			help: "Exit if an error occurs during initialization; every failure is listed. With false the models that loaded are served.",
			set:  notVar(func(o *serveOptions) *bool { return &o.server.KeepGoing }),
		},
		{
			name: "disable-auto-complete-config", group: groupRepository,
			help: "If set, disables the triton and backends from auto completing model configuration files.",
			set:  func(o *serveOptions, _ string) error { o.server.DisableAutoComplete = true; return nil },
		},
		{
			name: "strict-readiness", kind: "boolean", group: groupRepository,
			help: "If true, the server is ready only when it is responsive and all models are ready; if false, when it is responsive.",
			set:  notVar(func(o *serveOptions) *bool { return &o.server.LooseReadiness }),
		},
		{
			name: "model-control-mode", kind: "string", group: groupRepository,
			help: "\"none\": all models are loaded at startup and never changed. \"explicit\": models are loaded and unloaded through the API. " +
				"\"poll\": changes of the repositories are taken every --repository-poll-secs. \"on-demand\": a request for a model that is not " +
				"loaded loads it, see --model-memory-limit.",
			set: wordVar("model-control-mode", []string{"none", "explicit", "poll", "on-demand"},
				func(o *serveOptions, s string) error { o.server.ControlMode = s; return nil }),
		},
		{
			name: "repository-poll-secs", kind: "integer", group: groupRepository,
			help: "Interval in seconds between each poll of the model repository. Valid only with --model-control-mode=poll. 0 means never. " +
				"Default: 15.", set: secondsVar(func(o *serveOptions) *time.Duration { return &o.server.PollInterval }),
		},
		{
			name: "load-model", kind: "string", group: groupRepository,
			help: "Name of a model to be loaded on server startup. It may be specified multiple times; '*' alone loads all. Only with " +
				"--model-control-mode=explicit or on-demand.", set: listVar(func(o *serveOptions) *[]string { return &o.server.StartupModels }),
		},
		{
			name: "model-config-name", kind: "string", group: groupRepository,
			help: "Use <model>/configs/<name>.pbtxt as the configuration where that file exists, else config.pbtxt.",
			set: func(o *serveOptions, s string) error {
				if s == "" {
					return errEmptyConfigName
				}
				o.server.ModelConfigName = s
				return nil
			},
		},
		{
			name: "model-load-thread-count", kind: "integer", group: groupRepository, help: "The number of models loaded at the same time.",
			set: intVar(func(o *serveOptions) *int { return &o.server.LoadThreads }),
		},
		{
			name: "model-load-retry-count", kind: "integer", group: groupRepository, help: "The number of retries after a failed load.",
			set: intVar(func(o *serveOptions) *int { return &o.server.LoadRetries }),
		},
		{
			name: "model-namespacing", kind: "boolean", group: groupRepository,
			help: "Whether models of the same name may be loaded from different repositories. Requests by such a name are ambiguous; ensembles " +
				"use the models of their own repository.", set: boolVar(func(o *serveOptions) *bool { return &o.server.ModelNamespacing }),
		},
		{
			name: "enable-peer-access", kind: "boolean", group: groupRepository, help: "Whether to enable peer access between GPUs.", set: checkBool,
			unused: noGPU,
		},

		{
			name: "allow-http", kind: "boolean", group: groupHTTP, help: "Allow the server to listen for HTTP requests.",
			set: boolVar(func(o *serveOptions) *bool { return &o.allowHTTP }),
		},
		{
			name: "http-address", kind: "string", group: groupHTTP,
			help: "The address for the http server to bind to; an IPv6 one also in brackets or behind \"ipv6:\". \"unix:/path\" listens on a " +
				"Unix socket instead.", set: stringVar(func(o *serveOptions) *string { return &o.httpAddress }),
		},
		{
			name: "http-port", kind: "integer", group: groupHTTP,
			help: "The port for the server to listen on for HTTP requests. 0 means any free port.",
			set:  intVar(func(o *serveOptions) *int { return &o.httpPort }),
		},
		{
			name: "reuse-http-port", kind: "boolean", group: groupHTTP, help: "Allow multiple servers to listen on the same HTTP port.",
			set: boolVar(func(o *serveOptions) *bool { return &o.server.HTTP.ReusePort }),
		},
		{
			name: "http-header-forward-pattern", kind: "string", group: groupHTTP,
			help: "The regular expression pattern of headers that become request parameters.",
			set:  stringVar(func(o *serveOptions) *string { return &o.server.HTTP.HeaderForwardPattern }),
		},
		{
			name: "http-thread-count", kind: "integer", group: groupHTTP, help: "Number of threads handling HTTP requests.", set: checkInt(1, 1<<31),
			unused: noThreads,
		},
		{
			name: "http-max-input-size", kind: "integer", group: groupHTTP,
			help: "Maximum allowed HTTP request input size in bytes, also after decompression.", set: setMaxInput,
		},
		{
			name: "http-restricted-api", kind: "<string>:<string>=<string>", group: groupHTTP,
			help: "Restrict the use of protocols to requests with a header.",
			set: setRestricted("http-restricted-api", "api", "",
				func(o *serveOptions) *map[string]neso.Restriction { return &o.server.HTTP.Restricted }),
		},

		{
			name: "allow-grpc", kind: "boolean", group: groupGRPC, help: "Allow the server to listen for GRPC requests.",
			set: boolVar(func(o *serveOptions) *bool { return &o.allowGRPC }),
		},
		{
			name: "grpc-address", kind: "string", group: groupGRPC,
			help: "The address for the grpc server to bind to; an IPv6 one also in brackets or behind \"ipv6:\". \"unix:/path\" listens on a " +
				"Unix socket instead.", set: stringVar(func(o *serveOptions) *string { return &o.grpcAddress }),
		},
		{
			name: "grpc-port", kind: "integer", group: groupGRPC,
			help: "The port for the server to listen on for GRPC requests. 0 means any free port.",
			set:  intVar(func(o *serveOptions) *int { return &o.grpcPort }),
		},
		{
			name: "reuse-grpc-port", kind: "boolean", group: groupGRPC, help: "Allow multiple servers to listen on the same GRPC port.",
			set: boolVar(func(o *serveOptions) *bool { return &o.server.GRPC.ReusePort }),
		},
		{
			name: "grpc-header-forward-pattern", kind: "string", group: groupGRPC,
			help: "The regular expression pattern of metadata keys that become request parameters.",
			set:  stringVar(func(o *serveOptions) *string { return &o.server.GRPC.HeaderForwardPattern }),
		},
		{
			name: "grpc-infer-thread-count", kind: "integer", group: groupGRPC, help: "The number of gRPC inference handler threads, 2 to 128.",
			set: checkInt(2, 128), unused: noThreads,
		},
		{
			name: "grpc-infer-allocation-pool-size", kind: "integer", group: groupGRPC,
			help: "The maximum number of inference request/response objects kept for reuse.", set: checkInt(0, 1<<31),
			unused: "objects are pooled as needed",
		},
		{
			name: "grpc-max-response-pool-size", kind: "integer", group: groupGRPC,
			help: "The maximum number of responses kept per stream before the model is slowed down.", set: checkInt(1, 1<<31),
			unused: "the responses of a stream have a bound of their own",
		},
		{
			name: "grpc-use-ssl", kind: "boolean", group: groupGRPC, help: "Use SSL authentication for GRPC requests.",
			set: boolVar(func(o *serveOptions) *bool { return &o.grpcSSL }),
		},
		{
			name: "grpc-use-ssl-mutual", kind: "boolean", group: groupGRPC, help: "Use mutual SSL authentication for GRPC requests.",
			set: boolVar(func(o *serveOptions) *bool { return &o.grpcMutual }),
		},
		{
			name: "grpc-server-cert", kind: "string", group: groupGRPC,
			help: "File holding the PEM-encoded server certificate; read again when it changes.",
			set:  stringVar(func(o *serveOptions) *string { return &o.grpcTLS.Cert }),
		},
		{
			name: "grpc-server-key", kind: "string", group: groupGRPC, help: "File holding the PEM-encoded server key.",
			set: stringVar(func(o *serveOptions) *string { return &o.grpcTLS.Key }),
		},
		{
			name: "grpc-root-cert", kind: "string", group: groupGRPC,
			help: "File holding the PEM-encoded root certificate, which verifies clients with --grpc-use-ssl-mutual.",
			set:  stringVar(func(o *serveOptions) *string { return &o.grpcTLS.ClientCA }),
		},
		{
			name: "grpc-infer-response-compression-level", kind: "string", group: groupGRPC,
			help: "The compression level of inference responses: none, low, medium or high.",
			set: wordVar("grpc_infer_response_compression_level", []string{"none", "low", "medium", "high"},
				func(o *serveOptions, s string) error { o.server.GRPC.Compression = s; return nil }),
		},
		{
			name: "grpc-keepalive-time", kind: "integer", group: groupGRPC, help: "Milliseconds of silence after which a keepalive ping is sent.",
			set: millisVar(func(o *serveOptions) *time.Duration { return &o.server.GRPC.KeepaliveTime }),
		},
		{
			name: "grpc-keepalive-timeout", kind: "integer", group: groupGRPC, help: "Milliseconds to wait for the answer to a keepalive ping.",
			set: millisVar(func(o *serveOptions) *time.Duration { return &o.server.GRPC.KeepaliveTimeout }),
		},
		{
			name: "grpc-keepalive-permit-without-calls", kind: "boolean", group: groupGRPC,
			help: "Allow keepalive pings when there are no calls in flight.",
			set:  boolVar(func(o *serveOptions) *bool { return &o.server.GRPC.PingsWithoutCalls }),
		},
		{
			name: "grpc-http2-max-pings-without-data", kind: "integer", group: groupGRPC, help: "The maximum number of pings sent without data.",
			set: checkInt(0, 1<<31), unused: "pings are sent by time",
		},
		{
			name: "grpc-http2-min-recv-ping-interval-without-data", kind: "integer", group: groupGRPC,
			help: "Milliseconds that must lie between pings of a client without data.",
			set:  millisVar(func(o *serveOptions) *time.Duration { return &o.server.GRPC.MinPingInterval }),
		},
		{
			name: "grpc-http2-max-ping-strikes", kind: "integer", group: groupGRPC,
			help: "The number of bad pings tolerated before the connection is closed.", set: checkInt(0, 1<<31),
			unused: "the transport tolerates two",
		},
		{
			name: "grpc-max-connection-age", kind: "integer", group: groupGRPC, help: "Maximum age of a connection in milliseconds.",
			set: millisVar(func(o *serveOptions) *time.Duration { return &o.server.GRPC.MaxConnectionAge }),
		},
		{
			name: "grpc-max-connection-age-grace", kind: "integer", group: groupGRPC,
			help: "Milliseconds after the maximum age after which a connection is closed by force.",
			set:  millisVar(func(o *serveOptions) *time.Duration { return &o.server.GRPC.MaxConnectionAgeGrace }),
		},
		{
			name: "grpc-restricted-protocol", kind: "<string>:<string>=<string>", group: groupGRPC,
			help: "Restrict the use of protocols to requests with a metadata key.",
			set: setRestricted("grpc-restricted-protocol", "protocol", grpcPrefix,
				func(o *serveOptions) *map[string]neso.Restriction { return &o.server.GRPC.Restricted }),
		},

		{
			name: "allow-sagemaker", kind: "boolean", group: groupSagemaker, help: "Allow the server to listen for Sagemaker requests.",
			set: boolVar(func(o *serveOptions) *bool { return &o.allowSagemaker }),
		},
		{
			name: "sagemaker-port", kind: "integer", group: groupSagemaker, help: "The port for Sagemaker requests.",
			set: intVar(func(o *serveOptions) *int { return &o.sagemakerPort }),
		},
		{
			name: "sagemaker-safe-port-range", kind: "<integer>-<integer>", group: groupSagemaker,
			help: "The allowed port range of other endpoints.", set: setSafePorts,
		},
		{
			name: "sagemaker-thread-count", kind: "integer", group: groupSagemaker, help: "Number of threads handling Sagemaker requests.",
			set: checkInt(1, 1<<31), unused: noThreads,
		},
		{
			name: "allow-vertex-ai", kind: "boolean", group: groupVertex, help: "Allow the server to listen for Vertex AI requests.",
			set: boolVar(func(o *serveOptions) *bool { return &o.allowVertex }),
		},
		{
			name: "vertex-ai-port", kind: "integer", group: groupVertex, help: "The port for Vertex AI requests.",
			set: intVar(func(o *serveOptions) *int { return &o.vertexPort }),
		},
		{
			name: "vertex-ai-thread-count", kind: "integer", group: groupVertex, help: "Number of threads handling Vertex AI requests.",
			set: checkInt(1, 1<<31), unused: noThreads,
		},
		{
			name: "vertex-ai-default-model", kind: "string", group: groupVertex,
			help: "The model used for single-model inference. Default: the only model there is.",
			set:  stringVar(func(o *serveOptions) *string { return &o.server.VertexAI.Model }),
		},

		{
			name: "allow-metrics", kind: "boolean", group: groupMetrics, help: "Allow the server to provide prometheus metrics.",
			set: boolVar(func(o *serveOptions) *bool { return &o.allowMetrics }),
		},
		{
			name: "allow-gpu-metrics", kind: "boolean", group: groupMetrics, help: "Allow the server to provide GPU metrics.",
			set: notVar(func(o *serveOptions) *bool { return &o.server.Metrics.NoGPU }),
		},
		{
			name: "allow-cpu-metrics", kind: "boolean", group: groupMetrics, help: "Allow the server to provide CPU metrics.",
			set: notVar(func(o *serveOptions) *bool { return &o.server.Metrics.NoCPU }),
		},
		{
			name: "metrics-address", kind: "string", group: groupMetrics,
			help: "The address for the metrics server to bind to. Default is the same as --http-address.",
			set:  stringVar(func(o *serveOptions) *string { return &o.metricsAddress }),
		},
		{
			name: "metrics-port", kind: "integer", group: groupMetrics, help: "The port reporting prometheus metrics. 0 means any free port.",
			set: intVar(func(o *serveOptions) *int { return &o.metricsPort }),
		},
		{
			name: "metrics-interval-ms", kind: "float", group: groupMetrics,
			help: "Metrics will be collected once every <metrics-interval-ms> milliseconds.", set: checkInt(1, 1<<31),
			unused: "metrics are read when they are asked for",
		},
		{
			name: "metrics-config", kind: "<string>=<string>", group: groupMetrics,
			help: "Specify a metrics-specific configuration setting: counter_latencies, histogram_latencies, summary_latencies (true or false), " +
				"summary_quantiles; neso_histograms=false leaves out the histograms that Triton does not have, neso_idle=false versions that " +
				"nobody has called, neso_versions=false adds up the versions of a model, neso_max_series=N bounds the series of models.",
			set: listVar(func(o *serveOptions) *[]string { return &o.server.Metrics.Config }),
		},

		{
			name: "trace-config", kind: "<string>,<string>=<string>", group: groupTracing,
			help: "Specify global or trace mode specific configuration setting, <setting>=<value> or <trace mode>,<setting>=<value>; it may be " +
				"specified multiple times. Global: mode (triton or opentelemetry), level (OFF, TIMESTAMPS, TENSORS; may be repeated), rate (each " +
				"n-th request, default 1000), count (how many, -1 for all). triton: file, log-frequency (traces in each of the numbered files). " +
				"opentelemetry: url (of an OTLP/HTTP receiver, default http://localhost:4318/v1/traces), resource=<key>=<value>, bsp_max_queue_size " +
				"(2048), bsp_schedule_delay (milliseconds, 5000), bsp_max_export_batch_size (512).", set: setTraceConfig,
		},

		{
			name: "backend-directory", kind: "string", group: groupBackend,
			help: "The global directory searched for backend shared libraries. Default: the directory of neso backends add, where it exists.",
			set:  stringVar(func(o *serveOptions) *string { return &o.server.BackendDirectory }),
		},
		{
			name: "backend-config", kind: "<string>,<string>=<string>", group: groupBackend,
			help: "Specify a backend-specific configuration setting, <backend name>,<setting>=<value>, or one for all, <setting>=<value>.",
			set:  setBackendConfig,
		},
		{
			name: "allow-pickle", kind: "boolean", group: groupBackend,
			help: "Read models that are Python pickles (scikit-learn's), each in a process of its own. A pickle may run any code: without this " +
				"they are refused. Neso's own option.", set: setAllowPickle,
		},
		{
			name: "repoagent-directory", kind: "string", group: groupAgent,
			help: "The global directory searched for repository agent shared libraries. The checksum agent is part of the server.",
			set:  setAgentDirectory,
		},
		{
			name: "cache-config", kind: "<string>,<string>=<string>", group: groupCache,
			help: "Specify a cache-specific configuration setting, <cache name>,<setting>=<value>; it may be specified multiple times for one " +
				"cache. \"local\" needs size (bytes of memory); \"redis\" needs host and port and takes user, password, db, connect_timeout, " +
				"socket_timeout, wait_timeout (milliseconds), pool_size, tls_enabled, cert, key, cacert, cacert_dir, sni, ttl (seconds).",
			set: setCacheConfig,
		},
		{
			name: "cache-directory", kind: "string", group: groupCache,
			help: "The global directory searched for cache shared libraries. The caches \"local\" and \"redis\" are part of the server.",
			set:  setCacheDirectory,
		},
		{
			name: "rate-limit", kind: "string", group: groupRate,
			help: "Specify the mode for rate limiting: \"off\", or \"execution_count\" with which a model instance runs only while the resources " +
				"of its rate_limiter are free.", set: wordVar("rate-limit", []string{"off", "execution_count"},
				stringVar(func(o *serveOptions) *string { return &o.server.RateLimit })),
		},
		{
			name: "rate-limit-resource", kind: "<string>:<integer>[:<integer>]", group: groupRate,
			help: "The number of resources available to the server, <resource name>:<count>[:<device>], without a device on each. It may be " +
				"specified multiple times; then only the resources named exist. Default: as many of each as the instance needs that needs most.",
			set: setRateLimitResource,
		},
		{
			name: "pinned-memory-pool-byte-size", kind: "integer", group: groupMemory,
			help: "The total byte size that can be allocated as pinned system memory.", set: checkInt(math.MinInt, math.MaxInt), unused: noGPU,
		},
		{
			name: "cuda-memory-pool-byte-size", kind: "<integer>:<integer>", group: groupMemory,
			help: "<GPU>:<bytes>: the total byte size that can be allocated as CUDA memory on that GPU, in which Python models hand tensors to " +
				"each other; 0 for none. It may be specified once for each GPU. Default: 64 MiB for each.", set: setDeviceMemory,
		},
		{
			name: "cuda-virtual-address-size", kind: "<integer>:<integer>", group: groupMemory,
			help: "The total CUDA virtual address size for growable implicit state.", set: checkPair(":"), unused: noGPU,
		},
		{
			name: "min-supported-compute-capability", kind: "float", group: groupMemory, help: "The minimum supported CUDA compute capability.",
			set: func(o *serveOptions, s string) (err error) {
				o.server.GPU.MinComputeCapability, err = parseCapability(s)
				return err
			},
		},
		{
			name: "buffer-manager-thread-count", kind: "integer", group: groupMemory,
			help: "The number of threads used to accelerate copies between buffers.", set: checkInt(0, 1<<31),
			unused: "tensors are not copied between buffers",
		},
		{
			name: "host-policy", kind: "<string>,<string>=<string>", group: groupMemory,
			help: "Specify a host policy setting, <policy name>,<setting>=<value>; it may be specified multiple times. cpu-cores binds workers, " +
				"and the threads of ONNX Runtime, to processors (ranges: 0-3,8-8), numa-node their memory to a node. An instance group names its " +
				"host_policy; of those that name none the policy \"cpu\", \"model\" or \"gpu_<number>\" counts, by their kind.",
			set: func(o *serveOptions, s string) error { return hostpolicy.Set(&o.server.HostPolicies, s) },
		},
		{
			name: "model-load-gpu-limit", kind: "<integer>:<fraction>", group: groupMemory, help: "The limit on GPU memory usage as a fraction.",
			set: checkGPULimit, unused: noGPU,
		},
		{
			name: "allow-client-shm", kind: "boolean", group: groupSharedMem,
			help: "Allow clients to register system and CUDA shared memory: true all of them, false none. Default: those on this machine, which " +
				"connect from a loopback address or over a Unix socket.", set: setSharedMemory,
		},
		{
			name: "allow-client-shared-memory", kind: "boolean", group: groupSharedMem, help: "Equivalent to --allow-client-shm.",
			set: setSharedMemory,
		},

		{
			name: "strict-model-config", kind: "boolean", group: groupDeprecated, help: "DEPRECATED: use --disable-auto-complete-config.",
			set: func(o *serveOptions, s string) error {
				v, err := parseBool(s)
				o.strictModelConfig = &v
				return err
			},
		},
		{
			name: "response-cache-byte-size", kind: "integer", group: groupDeprecated, help: "DEPRECATED: use --cache-config=local,size=<integer>.",
			set: setCacheSize,
		},
		{name: "trace-file", kind: "string", group: groupDeprecated, help: "DEPRECATED: use --trace-config.", set: setTraceOld("trace-file")},
		{name: "trace-level", kind: "string", group: groupDeprecated, help: "DEPRECATED: use --trace-config.", set: setTraceOld("trace-level")},
		{name: "trace-rate", kind: "integer", group: groupDeprecated, help: "DEPRECATED: use --trace-config.", set: setTraceOld("trace-rate")},
		{name: "trace-count", kind: "integer", group: groupDeprecated, help: "DEPRECATED: use --trace-config.", set: setTraceOld("trace-count")},
		{
			name: "trace-log-frequency", kind: "integer", group: groupDeprecated, help: "DEPRECATED: use --trace-config.",
			set: setTraceOld("trace-log-frequency"),
		},

		{
			name: "control-fd", kind: "integer", group: groupNeso,
			help: "An inherited socket whose other end binds callables to this server (worker protocol). The server ends when it is closed.",
			set:  intVar(func(o *serveOptions) *int { return &o.controlFD }),
		},
		{
			name: "descriptor-fd", kind: "integer", group: groupNeso,
			help: "The inherited socket that descriptors of shared memory are passed over; goes with --control-fd.",
			set:  intVar(func(o *serveOptions) *int { return &o.descriptorFD }),
		},
		{
			name: "options-fd", kind: "integer", group: groupNeso,
			help: "An inherited descriptor from which more options are read to its end, one a line as on the command line: those that must not " +
				"be seen in a list of processes, such as access tokens.", set: intVar(func(o *serveOptions) *int { return &o.optionsFD }),
		},
		{
			name: "allow-bind", kind: "boolean", group: groupNeso,
			help: "Allow processes of the same user on this machine to bind callables to the running server. Default: true with " +
				"--model-control-mode=explicit.", set: func(o *serveOptions, s string) error {
				v, err := parseBool(s)
				o.allowBind = &v
				return err
			},
		},
		{
			name: "python", kind: "string", group: groupNeso,
			help: "The interpreter of Python models. Default: $NESO_PYTHON, else .venv/bin/python where it exists, else python3.",
			set:  stringVar(func(o *serveOptions) *string { return &o.python }),
		},
		{
			name: "worker-user", kind: "string", group: groupNeso,
			help: "The user that worker processes run as, when root runs the server (Linux). Default: the server's user.",
			set: func(o *serveOptions, s string) error {
				o.workerUser, o.server.ReadableModelFiles = s, s != ""
				return nil
			},
		},
		{
			name: "worker-env", kind: "string", group: groupNeso,
			help: "A pattern of names of environment variables that worker processes get, besides basic ones such as PATH. It may be specified " +
				"multiple times. Default: all but the server's own secrets, such as AWS_SECRET_ACCESS_KEY (docs/security.md).",
			set: listVar(func(o *serveOptions) *[]string { return &o.workerEnv }),
		},
		{
			name: "repository-cache-directory", kind: "string", group: groupNeso,
			help: "The directory that keeps what is downloaded from object stores from one start to the next. Default: a temporary one.",
			set:  stringVar(func(o *serveOptions) *string { return &o.server.RepositoryCacheDirectory }),
		},
		{
			name: "repository-settle-secs", kind: "integer", group: groupNeso,
			help: "Seconds a changed model directory must stay the same before --model-control-mode=poll takes it, at most " +
				"--repository-poll-secs. Default: 2.", set: secondsVar(func(o *serveOptions) *time.Duration { return &o.server.PollSettle }),
		},
		{
			name: "repository-require-manifest", kind: "boolean", group: groupNeso,
			help: "Load only models whose directory has a manifest.sha256 (as sha256sum writes it) and is what that says. Default: false, where " +
				"a manifest counts if there is one.", set: boolVar(func(o *serveOptions) *bool { return &o.server.RequireManifest }),
		},
		{
			name: "max-queued-bytes", kind: "integer", group: groupNeso,
			help: "Bytes of input that all requests in the server may hold together (suffixes K, M, G); further ones are refused at once. " +
				"Default: a quarter of the memory.", set: setCount(func(o *serveOptions) *int64 { return &o.server.MaxQueuedBytes }),
		},
		{
			name: "max-queued-requests", kind: "integer", group: groupNeso,
			help: "Requests in the server at once; further ones are refused at once. Default: 65536.",
			set:  setCount(func(o *serveOptions) *int64 { return &o.server.MaxQueuedRequests }),
		},
		{
			name: "warmup-in-statistics", kind: "boolean", group: groupNeso, help: "Count warm-up runs in the statistics, as Triton does.",
			set: boolVar(func(o *serveOptions) *bool { return &o.server.WarmupInStatistics }),
		},
		{
			name: "strict-outputs", kind: "boolean", group: groupNeso,
			help: "Make outputs of other datatypes and shapes than configured, and missing ones, errors. A model's parameter strict_outputs says " +
				"otherwise. Default: false, where they pass, as with Triton, and the log says so once for each output.",
			set: boolVar(func(o *serveOptions) *bool { return &o.server.StrictOutputs }),
		},
		{
			name: "unchecked-outputs", kind: "boolean", group: groupNeso,
			help: "Accepted for command lines of older versions, without effect: see --strict-outputs.", set: checkBool,
			unused: "outputs are not checked unless --strict-outputs asks for it",
		},
		{
			name: "http-tls-cert", kind: "string", group: groupNeso,
			help: "File holding the PEM-encoded certificate of the HTTP listener, which then speaks HTTPS; read again when it changes.",
			set:  stringVar(func(o *serveOptions) *string { return &o.httpTLS.Cert }),
		},
		{
			name: "http-tls-key", kind: "string", group: groupNeso, help: "File holding the PEM-encoded key of --http-tls-cert.",
			set: stringVar(func(o *serveOptions) *string { return &o.httpTLS.Key }),
		},
		{
			name: "http-tls-client-ca", kind: "string", group: groupNeso,
			help: "File holding PEM-encoded certificates of authorities: HTTP clients must show a certificate signed by one of them.",
			set:  stringVar(func(o *serveOptions) *string { return &o.httpTLS.ClientCA }),
		},
		{
			name: "metrics-tls-cert", kind: "string", group: groupNeso, help: "As --http-tls-cert, for the metrics listener.",
			set: stringVar(func(o *serveOptions) *string { return &o.metricsTLS.Cert }),
		},
		{
			name: "metrics-tls-key", kind: "string", group: groupNeso, help: "As --http-tls-key, for the metrics listener.",
			set: stringVar(func(o *serveOptions) *string { return &o.metricsTLS.Key }),
		},
		{
			name: "metrics-tls-client-ca", kind: "string", group: groupNeso, help: "As --http-tls-client-ca, for the metrics listener.",
			set: stringVar(func(o *serveOptions) *string { return &o.metricsTLS.ClientCA }),
		},
		{
			name: "allow-dashboard", kind: "boolean", group: groupNeso,
			help: "Serve /dashboard, a page that shows the server, beside the metrics. Without --auth-file other machines read there only. " +
				"Default: true.", set: notVar(func(o *serveOptions) *bool { return &o.server.Metrics.NoDashboard }),
		},
		{
			name: "dashboard-address", kind: "string", group: groupNeso,
			help: "A listener, host:port or unix:/path, for the dashboard alone, with the TLS of the metrics: whoever reaches it may do what the " +
				"HTTP API lets them. Default: beside the metrics.", set: setDashboardAddress,
		},
		{
			name: "http-docs", kind: "boolean", group: groupNeso,
			help: "Describe the HTTP API, with the models that are loaded, at /openapi.json (OpenAPI 3.1) and show it at /docs. Default: true.",
			set:  notVar(func(o *serveOptions) *bool { return &o.server.HTTP.NoDescription }),
		},
		{
			name: "openai", kind: "boolean", group: groupNeso,
			help: "Serve models of text at /v1/ of the HTTP port, as OpenAI's API does: chat/completions, completions, responses, embeddings, " +
				"models. docs/use/openai.md says which models. Default: false.",
			set: boolVar(func(o *serveOptions) *bool { return &o.server.HTTP.OpenAI }),
		},
		{
			name: "grpc-reflection", kind: "boolean", group: groupNeso,
			help: "Tell gRPC clients such as grpcurl the services and their messages (server reflection). Default: true.",
			set:  notVar(func(o *serveOptions) *bool { return &o.server.GRPC.NoReflection }),
		},
		{
			name: "grpc-max-message-bytes", kind: "integer", group: groupNeso,
			help: "The largest gRPC message in bytes (suffixes K, M, G); larger ones are refused by their head. Default: --max-queued-bytes, at " +
				"most 2 GiB.", set: setCount(func(o *serveOptions) *int64 { return &o.server.GRPC.MaxMessageSize }),
		},
		{
			name: "grpc-max-streams", kind: "integer", group: groupNeso,
			help: "gRPC calls of one connection at once: each may hold a message that no model has admitted yet. Default: 16384.",
			set:  setMaxStreams,
		},
		{
			name: "auth-file", kind: "string", group: groupNeso,
			help: "A JSON file of the keys that clients must have, with what each may do and how much; read again when it changes. 'neso key new " +
				"NAME' makes entries, docs/security.md tells all. Default: no keys.",
			set: nonEmptyVar("auth-file", func(o *serveOptions) *string { return &o.server.AuthFile }),
		},
		{
			name: "admin-address", kind: "string", group: groupNeso,
			help: "host:port or unix:/path of an HTTP listener that is then the only place where the server can be changed: load, unload, " +
				"settings, shared memory, binding. With the TLS of HTTP, if any. Default: every listener serves these.", set: setAdminAddress,
		},
		{
			name: "http-trusted-host", kind: "string", group: groupNeso,
			help: "A name by which a proxy on this machine, or a page in a browser, knows this server, as a pattern with '*'. It may be " +
				"specified multiple times. Requests that change the server are refused when they come from a page of another origin, or from this " +
				"machine for another name than an address, localhost, the machine's own or one of these.",
			set: listVar(func(o *serveOptions) *[]string { return &o.server.HTTP.TrustedHosts }),
		},
		{
			name: "allow-model-loads", kind: "boolean", group: groupNeso,
			help: "Let models load and unload models (pb_utils.load_model). Default: true, as Triton does with --model-control-mode=explicit; " +
				"false with --admin-address.", set: func(o *serveOptions, s string) error {
				v, err := parseBool(s)
				o.server.ModelLoads = "never"
				if v {
					o.server.ModelLoads = "always"
				}
				return err
			},
		},
		{
			name: "allow-model-files", kind: "boolean", group: groupNeso,
			help: "Let loads, over the API or by a model, bring the model's files (file: parameters), and so its code. Default: true, as Triton " +
				"does with --model-control-mode=explicit.", set: notVar(func(o *serveOptions) *bool { return &o.server.RefuseModelFiles }),
		},
		{
			name: "sagemaker-model-root", kind: "string", group: groupNeso,
			help: "The directory below which models that Sagemaker loads must lie. Default: /opt/ml/models.",
			set:  stringVar(func(o *serveOptions) *string { return &o.server.Sagemaker.Root }),
		},
		{
			name: "drain-grace-secs", kind: "integer", group: groupNeso,
			help: "Seconds after SIGTERM for which the server is not ready, so that balancers turn away, but serves everything; only then are " +
				"clients sent elsewhere and requests drained. Default: 0.",
			set: secondsVar(func(o *serveOptions) *time.Duration { return &o.server.DrainGrace }),
		},
		{
			name: "instance-hang-timeout", kind: "float", group: groupNeso,
			help: "Seconds without progress after which a busy instance is interrupted, its requests answered with an error, and the instance " +
				"replaced; it is reported after half of them. Must be above the longest execution. Default: 0, never (reported after a minute).",
			set: floatSecondsVar(func(o *serveOptions) *time.Duration { return &o.server.HangTimeout }),
		},
		{
			name: "watchdog-interval-secs", kind: "integer", group: groupNeso,
			help: "Seconds between two looks at the listeners and instances; 0 turns them off. Default: 10.", set: setWatchInterval,
		},
		{
			name: "http-max-connection-age-secs", kind: "integer", group: groupNeso,
			help: "Seconds after which an HTTP connection is asked to end with its next reply (Connection: close), give or take a tenth, so that " +
				"clients spread over the servers behind a plain balancer. Default: 0, never.",
			set: secondsVar(func(o *serveOptions) *time.Duration { return &o.server.HTTP.MaxConnectionAge }),
		},
		{
			name: "http-transport", kind: "string", group: groupNeso,
			help: "What serves HTTP: \"neso\", which answers inference requests itself and leaves the others to Go's library, or \"library\", " +
				"which answers all. The way out for clients that do not get on with the former. Default: neso.",
			set: wordVar("http-transport", []string{"neso", "library"}, func(o *serveOptions, s string) error {
				o.server.HTTP.Transport = s
				return nil
			}),
		},
		{
			name: "grpc-transport", kind: "string", group: groupNeso,
			help: "What serves gRPC: \"neso\", or \"library\", the server of grpc-go, which takes more CPU and does not count what it holds. The " +
				"way out for clients that do not get on with the former. Default: neso.",
			set: wordVar("grpc-transport", []string{"neso", "library"}, func(o *serveOptions, s string) error {
				o.server.GRPC.Transport = s
				return nil
			}),
		},
		{
			name: "http-idle-timeout-secs", kind: "integer", group: groupNeso,
			help: "Seconds after which an idle HTTP connection is closed. Default: 600.",
			set:  secondsVar(func(o *serveOptions) *time.Duration { return &o.server.HTTP.IdleTimeout }),
		},
		{
			name: "http-header-timeout-secs", kind: "integer", group: groupNeso,
			help: "Seconds a client may take to send the headers of a request. Default: that of --http-read-timeout-secs.",
			set:  secondsVar(func(o *serveOptions) *time.Duration { return &o.server.HTTP.HeaderTimeout }),
		},
		{
			name: "http-read-timeout-secs", kind: "integer", group: groupNeso,
			help: "Seconds a client may take to send a whole request; a large body gets the time that 16 KiB/s need on top. Default: 60.",
			set:  secondsVar(func(o *serveOptions) *time.Duration { return &o.server.HTTP.ReadTimeout }),
		},
	}
}

func secondsVar(p func(*serveOptions) *time.Duration) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		v, err := parseInt(s)
		if err == nil && (v < 0 || v > mostSeconds) {
			err = fmt.Errorf("expected a number of seconds, got %q", s)
		}
		*p(o) = time.Duration(v) * time.Second
		return err
	}
}
