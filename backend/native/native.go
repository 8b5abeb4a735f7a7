package native

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/near"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/internal/scratch"
)

// Name is the driver's own, by which `neso backends` lists it.
const Name = "native"

// Parameters of a model.
const (
	// paramIsolation says whether the model has a process of its own, "process" (the
	// default), one with the other models of its library, "shared", or that of the
	// program that has the server as a C library, "none".
	paramIsolation = "isolation"
	// paramLimit bounds a batch in seconds, as for Python models.
	paramLimit = "EXECUTION_TIMEOUT_SECONDS"
)

// Options say how the processes are started.
type Options struct {
	// Host is the neso-host command. Empty: $NESO_HOST, else neso-host beside this
	// program, in build/lib, or on the PATH.
	Host string
	// WorkerBinary is the neso command, which starts workers of another user and with
	// limits.
	WorkerBinary string
	// WorkerUser and WorkerEnvironment are those of package backend/python.
	WorkerUser        string
	WorkerEnvironment []string
	// Environment is the server's environment, of which workers get a part; nil is that
	// of this process.
	Environment []string
	// Here makes what runs libraries in the process of the server, for each server that
	// has a model with `isolation: none`. It is nil where none may run there.
	Here func() Here
}

// Here runs libraries in the process of the server.
type Here interface {
	// Serve is a worker: it speaks over its ends of the channels, and returns when the
	// server has said that it is enough, or is gone.
	Serve(control, descriptors *os.File, beside *near.Near)
	// Close ends the libraries, which no worker uses any more.
	Close()
}

// New returns the driver.
func New(o Options) backend.Driver {
	return backend.Driver{
		Name: Name, Finds: o.finds, CheckParameter: checkParameter, Files: []string{paramBatching},
		Open: func(_ context.Context, host backend.Host, settings backend.Settings) (backend.Backend, error) {
			return open(o, host, settings)
		},
	}
}

// driver is the opened backend.
type driver struct {
	options  Options
	settings backend.Settings
	user     *process.User
	host     backend.Host
	log      *slog.Logger
	launcher *process.Launcher
	warm     supervise.Warm

	preferred preferred

	mu     sync.Mutex
	shared map[string]*group // by library
	links  map[string]*scratch.Dir
	here   Here // nil before the first model that runs here
}

func open(o Options, host backend.Host, s backend.Settings) (backend.Backend, error) {
	user, err := process.FindUser(o.WorkerUser, s.Option("worker-user"))
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	if host != nil && host.Logger() != nil {
		log = host.Logger()
	}
	return &driver{
		options: o, settings: s, user: user, host: host, log: log, launcher: &process.Launcher{Logger: log},
		shared: map[string]*group{}, links: map[string]*scratch.Dir{},
	}, nil
}

// Capabilities implements backend.Backend.
func (d *driver) Capabilities() backend.Capabilities {
	return backend.Capabilities{
		Completes: true, Alters: true, CopiesOutputs: true, KeepsOrder: true, LooseOutputs: true, ExtraOutputs: true, Serial: true,
		Parallel:     d.parallel,
		PreferredFor: d.preferredFor,
	}
}

// checkParameter is what a load says of one parameter.
func checkParameter(cfg *backend.Config, name string) error {
	switch name {
	case paramIsolation:
		_, err := isolationOf(cfg)
		return err
	case paramLimit:
		if _, ok := limits.ParseSeconds(cfg.Parameters[name]); !ok {
			return backend.Errorf(backend.InvalidArg, "Incorrect value for %s: '%s' is not a number of seconds from 0 on", name,
				cfg.Parameters[name])
		}
	}
	return limits.Check(cfg.Parameters, name)
}

// isolation is which process a model runs in.
type isolation uint8

const (
	isolated isolation = iota // its own
	shared                    // that of all models of the library that say so
	here                      // the server's
)

// isolationOf reads the parameter.
func isolationOf(cfg *backend.Config) (isolation, error) {
	switch v := strings.ToLower(cfg.Parameters[paramIsolation]); v {
	case "", "process":
		return isolated, nil
	case "shared":
		return shared, nil
	case "none":
		return here, nil
	default:
		return isolated, backend.Errorf(backend.InvalidArg, "parameter 'isolation' of model '%s' is '%s', expected process, shared or none",
			cfg.Name, cfg.Parameters[paramIsolation])
	}
}

// isShared reports whether the model shares a process.
func isShared(cfg *backend.Config) bool {
	is, _ := isolationOf(cfg) // checked before
	return is != isolated
}

// checkHere refuses what a library in the server's process cannot have.
func (d *driver) checkHere(cfg *backend.Config) error {
	if d.options.Here == nil {
		return backend.Errorf(backend.Unsupported, "model '%s' has 'isolation: none', which is for programs that have the server as C library: "+
			"under this server a backend library has a process, expected process or shared", cfg.Name)
	}
	for _, name := range append(slices.Clone(limits.Parameters), paramLimit) {
		if _, ok := cfg.Parameters[name]; ok {
			return backend.Errorf(backend.InvalidArg, "model '%s' has 'isolation: none': parameter %s bounds a process, and it has none of its own",
				cfg.Name, name)
		}
	}
	return nil
}

// worker is the command of a library that runs here.
func (d *driver) worker() func(control, descriptors *os.File, beside *near.Near) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.here == nil {
		d.here = d.options.Here()
	}
	return d.here.Serve
}

// check refuses what no process need be started for.
func (d *driver) check(cfg *backend.Config) (library, error) {
	for _, name := range append(slices.Clone(limits.Parameters), paramIsolation, paramLimit) {
		if _, ok := cfg.Parameters[name]; ok {
			if err := checkParameter(cfg, name); err != nil {
				return library{}, err
			}
		}
	}
	if is, _ := isolationOf(cfg); is == here {
		if err := d.checkHere(cfg); err != nil {
			return library{}, err
		}
	}
	return d.library(cfg)
}

// Complete implements backend.Backend.
func (d *driver) Complete(ctx context.Context, cfg backend.Config) ([]byte, error) {
	lib, err := d.check(&cfg)
	if err != nil {
		return nil, err
	}
	if isShared(&cfg) {
		return d.completeShared(ctx, &cfg, lib)
	}
	spec, err := d.spec(&cfg, lib)
	if err != nil {
		return nil, err
	}
	s, err := supervise.Launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	loaded, err := load(ctx, s.Conn, d.loadOf(&cfg, lib, firstModel, true))
	if err != nil {
		s.Stop()
		return nil, err
	}
	d.warm.Keep(&cfg, s)
	return loaded.Config, nil
}

// Load implements backend.Backend.
func (d *driver) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	lib, err := d.check(&cfg)
	if err != nil {
		return nil, err
	}
	batching, err := d.batching(&cfg, lib)
	if err != nil {
		return nil, err
	}
	m := newModel(d, cfg, lib, batching)
	m.parallel = d.parallel(&cfg)
	return m, nil
}

// Close implements backend.Backend.
func (d *driver) Close() error {
	d.warm.Close()
	d.launcher.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.here != nil {
		d.here.Close()
		d.here = nil
	}
	var failed []error
	for _, dir := range d.links {
		failed = append(failed, dir.Remove())
	}
	d.links = map[string]*scratch.Dir{}
	return errors.Join(failed...)
}

// plain turns an error that the worker told into that error.
func plain(err error) error {
	if e, ok := errors.AsType[*worker.CallError](err); ok {
		return &backend.Error{Code: e.Code, Message: e.Message}
	}
	return err
}

// environment is that of the processes.
func (d *driver) environment() []string {
	return process.Environment(d.options.Environment, d.options.WorkerEnvironment, d.user)
}
