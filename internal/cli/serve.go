package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/internal/cli/backends"
	"github.com/nesoserve/neso/internal/cli/orphans"
	"github.com/nesoserve/neso/internal/cli/signals"
	"github.com/nesoserve/neso/internal/cli/systemd"
	"github.com/nesoserve/neso/internal/responsecache"
	"github.com/nesoserve/neso/internal/setting"
	"github.com/nesoserve/neso/internal/startpages"
)

func defaults() *serveOptions {
	return &serveOptions{
		server: neso.Server{
			OptionPrefix: setting.Options,
			ExitTimeout:  30 * time.Second, ControlMode: "none", PollInterval: 15 * time.Second, PollSettle: 2 * time.Second, LoadThreads: 4,
			HTTP: neso.HTTP{MaxInputSize: 64 << 20}, GPU: neso.GPU{MinComputeCapability: 6},
		},
		log:         neso.LogSettings{Format: logFormats[0]},
		httpAddress: "0.0.0.0", grpcAddress: "0.0.0.0",
		httpPort: 8000, grpcPort: 8001, metricsPort: 8002,
		controlFD: -1, descriptorFD: -1, optionsFD: -1,
		cloudOptions: cloudOptions{sagemakerPort: defaultCloudPort, vertexPort: defaultCloudPort},
		allowHTTP:    true, allowGRPC: true, allowMetrics: true,
	}
}

// serve is `neso serve`. It returns the exit status: 0 after a drained stop,
// 1 for everything that went wrong.
func serve(ctx context.Context, env Env, args []string, asTriton bool) int {
	table := serveTable()
	line := startLine(args)
	o, paths, given, status := asked(env, table, args, asTriton)
	if o == nil {
		return status
	}
	single, err := o.serveSingle(paths)
	if err != nil {
		fmt.Fprintln(env.Stderr, err)
		return 1
	}
	defer single.remove()
	o.log.Output = env.Stderr
	log, err := neso.OpenLog(o.log)
	if err != nil {
		fmt.Fprintln(env.Stderr, err)
		return 1
	}
	defer log.Close()
	logger := log.Logger()
	logger.Info("starting", "neso", neso.Version(), "pid", os.Getpid(), "options", line)
	tuneRuntime()
	defer orphans.Adopt()()
	for _, opt := range table {
		if opt.unused != "" && slices.Contains(given, opt.name) {
			logger.Warn("option has no effect", "option", setting.Options+opt.name, "because", opt.unused)
		}
	}
	with := all.Options{
		Python: o.python, WorkerBinary: workerBinary(), WorkerUser: o.workerUser, WorkerEnvironment: o.workerEnv,
		DeviceMemory: o.deviceMemory, CUDALibrary: o.cudaLibrary, OptionPrefix: setting.Options,
	}
	for _, w := range append(o.warnings, with.Warnings()...) {
		logger.Warn(w) //nolint:sloglint // texts of our own
	}
	o.server.Log = log
	if o.server.ResponseCache.Name == "redis" {
		responsecache.SilenceDriver()
	}
	if err := with.Check(); err != nil {
		fmt.Fprintln(env.Stderr, err)
		return 1
	}
	o.server.Backends, o.server.Libraries = all.Drivers(with), all.Plugins(with)
	return o.run(ctx, env, log, single, asTriton)
}

// asked reads the command line: the options, the paths of models, and the names of
// the options that were given. Where the command ends here, with its help or an
// error, there are no options but an exit status.
func asked(env Env, table []option, args []string, asTriton bool) (o *serveOptions, paths, given []string, status int) {
	o = defaults()
	if !asTriton {
		paths, args = modelPaths(args)
		o.single = len(paths) > 0
	}
	given, err := o.read(table, args)
	if err == nil && o.help {
		if asTriton {
			usage(env.Stderr, table, "tritonserver")
			return nil, nil, nil, 1
		}
		usage(env.Stdout, table, "neso serve [PATH...]")
		return nil, nil, nil, 0
	}
	if err == nil {
		err = o.complete(given)
	}
	if err == nil {
		return o, paths, given, 0
	}
	if asTriton {
		usage(env.Stderr, table, "tritonserver")
		fmt.Fprintln(env.Stderr, err)
	} else {
		fmt.Fprintln(env.Stderr, misplaced(err))
		fmt.Fprintln(env.Stderr, "Run 'neso serve --help' for all options.")
	}
	return nil, nil, nil, 1
}

// run is the server from its start to its end. It returns the exit status.
func (o *serveOptions) run(ctx context.Context, env Env, log *neso.Log, single *single, asTriton bool) int {
	logger := log.Logger()
	if o.controlFD > 0 {
		ignoreBrokenPipes()
	}
	guests, err := o.guests(logger)
	if err != nil {
		fmt.Fprintln(env.Stderr, "error: creating server:", err)
		return 1
	}
	if guests != nil {
		defer guests.Close()
	}
	ctx, stop := signals.Context(ctx, logger)
	defer stop()
	manager := systemd.Open(ctx, logger)
	defer manager.Close()
	if err := o.server.Start(ctx); err != nil {
		if ctx.Err() != nil {
			logger.Info("stopped before the models were loaded")
			return 0
		}
		// What is wrong with each model is in the log, for machines, and in the error,
		// for people; the rest only points at it, where people do not read both.
		report(log, &o.server, true)
		if o.log.File != "" || log.Format() == "json" {
			summary, _, _ := strings.Cut(err.Error(), "\n")
			logger.Error("failed to start", "error", summary)
		}
		hint := ""
		if !asTriton && len(o.server.ModelRepositories) == 0 && !o.server.NoRepository {
			hint = ", or a model file or directory: neso serve PATH"
		}
		fmt.Fprintf(env.Stderr, "error: creating server: %s - %v%s\n", backend.AsError(err).Code, err, hint)
		return 1
	}
	defer followLoad()()
	report(log, &o.server, false)
	if err := startpages.Release(); err != nil {
		logger.Debug("pages of the start stay", "error", err)
	}
	single.report(env.Stdout, &o.server)
	manager.Ready(o.server.Live)
	err = control(ctx, o, logger)
	if err != nil {
		logger.Error("failed to stop server", "error", err.Error())
		fmt.Fprintf(env.Stderr, "failed to stop server: %s - %v\n", backend.AsError(err).Code, err)
		return 1
	}
	return 0
}

// read takes what the environment and the command line say, and returns the
// names of the options that were given.
func (o *serveOptions) read(table []option, args []string) ([]string, error) {
	if err := o.cloudDefaults(os.Getenv); err != nil {
		return nil, err
	}
	o.gpuDefaults(os.LookupEnv)
	o.holdDefaults(os.Getenv)
	if err := o.sagemakerDefaults(table, args, os.Getenv); err != nil {
		return nil, err
	}
	given, err := parse(table, args, o)
	if err == nil && o.optionsFD >= 0 {
		given, err = o.inherited(table, given)
	}
	return given, err
}

// holdDefaults takes what tests of batching want of the batchers. Whatever is no
// number means 0, as in Triton.
func (o *serveOptions) holdDefaults(getenv func(string) string) {
	o.server.HoldRequests, _ = strconv.Atoi(getenv("TRITONSERVER_DELAY_SCHEDULER"))
	o.server.HoldBacklog, _ = strconv.Atoi(getenv("TRITONSERVER_BACKLOG_DELAY_SCHEDULER"))
}

// complete fills what depends on several options and checks them together.
func (o *serveOptions) complete(given []string) error {
	s := &o.server
	if len(s.StartupModels) > 0 && s.ControlMode != "explicit" && s.ControlMode != "on-demand" {
		return &usageError{"Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well."}
	}
	if slices.Contains(given, "response-cache-byte-size") && slices.Contains(given, "cache-config") {
		return &usageError{"Error: Incompatible flags --response-cache-byte-size and --cache-config both provided. Please provide one or the " +
			"other."}
	}
	if o.strictModelConfig != nil && *o.strictModelConfig {
		s.DisableAutoComplete = true
	}
	if (o.controlFD >= 0) != (o.descriptorFD >= 0) || o.controlFD >= 0 && (o.controlFD < 3 || o.descriptorFD < 3) {
		return &usageError{"--control-fd and --descriptor-fd go together and name inherited descriptors from 3 on"}
	}
	s.BackendDirectory = backends.Directory(s.BackendDirectory)
	if err := o.completeTLS(); err != nil {
		return err
	}
	if err := o.completeTrace(); err != nil {
		return err
	}
	s.NoRepository = s.NoRepository || o.controlFD >= 0
	if len(s.ModelRepositories) == 0 && !s.NoRepository && !o.single && o.storageURI != "" {
		s.ModelRepositories = []string{o.storageURI}
	}
	if o.allowSagemaker && s.ControlMode == "explicit" && len(s.ModelRepositories) == 0 {
		s.NoRepository = true // the cloud registers them
	}
	if len(s.StartupModels) == 1 && s.StartupModels[0] != "*" {
		s.Sagemaker.Model = cmp.Or(s.Sagemaker.Model, s.StartupModels[0])
	}
	slices.Sort(s.ModelRepositories)
	for _, path := range s.ModelRepositories {
		if _, err := os.Stat(filepath.Join(path, "config.pbtxt")); err == nil {
			o.warnings = append(o.warnings,
				fmt.Sprintf("--model-repository=%s has a config.pbtxt: it looks like a model, and each directory in it is taken for one; give the "+
					"directory that the model lies in, or 'neso serve %s'", path, path))
		}
	}
	if o.metricsAddress == "" {
		o.metricsAddress = o.httpAddress
		if strings.HasPrefix(o.metricsAddress, "unix:") {
			o.metricsAddress = "127.0.0.1"
		}
	}
	type endpoint struct {
		name, address string
		port          int
		on            bool
		set           *string
	}
	endpoints := []endpoint{
		{"HTTP", o.httpAddress, o.httpPort, o.allowHTTP, &s.HTTP.Address},
		{"GRPC", o.grpcAddress, o.grpcPort, o.allowGRPC, &s.GRPC.Address},
		{"metrics", o.metricsAddress, o.metricsPort, o.allowMetrics, &s.Metrics.Address},
		{"Sagemaker", "0.0.0.0", o.sagemakerPort, o.allowSagemaker, &s.Sagemaker.Address},
		{"Vertex AI", "0.0.0.0", o.vertexPort, o.allowVertex, &s.VertexAI.Address},
	}
	for i, e := range endpoints {
		if !e.on {
			continue
		}
		if strings.HasPrefix(e.address, "unix:") {
			*e.set = e.address
		} else {
			if e.port < 0 || e.port > 65535 {
				return &usageError{fmt.Sprintf("Bad option: %s port %d is not between 0 and 65535", e.name, e.port)}
			}
			*e.set = net.JoinHostPort(host(e.address), strconv.Itoa(e.port))
		}
		if p := o.safePorts; p != nil && e.name != "Sagemaker" && o.allowSagemaker && e.address == "0.0.0.0" && (e.port < p[0] || e.port > p[1]) {
			return &usageError{fmt.Sprintf("The server cannot listen to %s requests at port %d, allowed port range is [%d, %d]", e.name, e.port,
				p[0], p[1])}
		}
		for _, other := range endpoints[:i] {
			if other.on && *other.set == *e.set && e.port != 0 {
				return &usageError{fmt.Sprintf("The server cannot listen to %s requests and %s requests at the same address and port %s", other.name,
					e.name, *e.set)}
			}
		}
	}
	return nil
}

// host takes the forms of an address that Triton's listeners know down to the
// address: "ipv6:" and "ipv4:" in front of it, brackets around it.
func host(address string) string {
	for _, family := range []string{"ipv6:", "ipv4:"} {
		address = strings.TrimPrefix(address, family)
	}
	if inner, ok := strings.CutPrefix(address, "["); ok && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]")
	}
	return address
}
