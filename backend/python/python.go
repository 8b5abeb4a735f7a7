package python

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/internal/scratch"
	pyfiles "github.com/nesoserve/neso/python"
)

// Options of the Python backend. The zero value is fine.
type Options struct {
	// Python is the interpreter that runs models without an environment of their
	// own. Empty: $NESO_PYTHON, else .venv/bin/python below the working directory
	// if there is one, else python3 on the PATH.
	Python string
	// CacheDirectory is where environments are unpacked. Empty: neso/environments
	// in the user's cache directory.
	CacheDirectory string
	// WorkerUser is who workers run as; empty means the server's user. Only root can
	// say it, on Linux.
	WorkerUser string
	// WorkerBinary is the neso command: it starts workers of another user, and those
	// with limits. Without it such limits take CAP_SYS_RESOURCE.
	WorkerBinary string
	// WorkerEnvironment are patterns of the names of variables that workers get; nil
	// means all but those with the server's own secrets.
	WorkerEnvironment []string
	// Environment is the server's environment, of which workers get a part; nil is that
	// of this process.
	Environment []string
	// DeviceMemory bounds the memory on each GPU in which models hand tensors to
	// each other, in bytes by the number of the GPU; 64 MiB where there is none, 0 or
	// less for none.
	DeviceMemory map[int]int64
	// CUDALibrary is the GPU driver's library; default "libcuda.so.1".
	CUDALibrary string
}

// New returns the driver of the backend "python".
func New(o Options) backend.Driver {
	return backend.Driver{
		Name: ownName, Implements: implements, Parameters: append(workerParameters(), ownParameters...), OwnParameters: true,
		CheckParameter: checkParameter, Settings: knownSettings(), Paths: []string{paramEnvironment},
		Open: func(_ context.Context, host backend.Host, settings backend.Settings) (backend.Backend, error) {
			return open(o, nil, host, settings)
		},
	}
}

// scratchPrefix begins the names of directories of the worker's sources.
const scratchPrefix = "neso-python-"

// driver is the opened backend.
type driver struct {
	options  Options
	hosted   *Hosted          // nil: models are code of the user
	server   backend.Settings // Directory is where python-based backends lie
	settings settings
	user     *process.User // of workers; nil for the server's
	host     backend.Host
	log      *slog.Logger
	env      []string // of the server, for workers
	launcher *process.Launcher
	envs     environments
	devices  *segment.DevicePool // nil for frameworks, whose outputs are on the host
	grace    time.Duration       // for the end of a worker; 0 is the worker's default
	finalize time.Duration       // for finalize; 0 is the worker's default
	warm     supervise.Warm

	mu     sync.Mutex
	files  *scratch.Dir // directory of the worker's sources, made for the first model
	sweep  sync.WaitGroup
	closed bool
}

func open(o Options, hosted *Hosted, host backend.Host, s backend.Settings) (backend.Backend, error) {
	parsed, err := parseSettings(s.Values)
	if err != nil {
		return nil, err
	}
	user, err := process.FindUser(o.WorkerUser, s.Option("worker-user"))
	if err != nil {
		return nil, err
	}
	if hosted != nil && s.Values[settingTimeout] == "" {
		parsed.stubTimeout = hostedStart
	}
	log := slog.New(slog.DiscardHandler)
	if host != nil && host.Logger() != nil {
		log = host.Logger()
	}
	for _, name := range parsed.ignored {
		log.Warn("backend setting has no effect", slog.String("backend", hosted.name()), slog.String("setting", name),
			slog.String("because", ignoredSettings[name]))
	}
	d := &driver{
		options: o, hosted: hosted, server: s, settings: parsed, host: host, log: log, user: user,
		env:      process.Environment(o.Environment, o.WorkerEnvironment, user),
		launcher: &process.Launcher{Logger: log.With(slog.String("backend", hosted.name()))},
		envs:     environments{directory: o.CacheDirectory},
	}
	if hosted == nil {
		d.devices = segment.NewDevicePool(segment.DeviceOptions{
			Limits: o.DeviceMemory, OptionPrefix: s.OptionPrefix, Library: o.CUDALibrary, Logger: log,
		})
	}
	return d, nil
}

// Capabilities implements backend.Backend.
func (d *driver) Capabilities() backend.Capabilities {
	if d.hosted != nil {
		return backend.Capabilities{Depth: hostedDepth, Count: 1, Gather: true, Completes: true, CopiesOutputs: true, UsesGPU: d.hosted.UsesGPU}
	}
	// a model that wants a GPU says so, as in Triton
	return backend.Capabilities{
		Completes: true, CopiesOutputs: true, KeepsOrder: true, TakesDevice: takesDevice, Kind: "KIND_CPU", Starts: starts,
	}
}

// starts reports whether batches of a model are sent to its worker without a wait. Those of
// decoupled models end before their requests do.
func starts(cfg *backend.Config) bool { return !cfg.Decoupled }

// Close implements backend.Backend.
func (d *driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.warm.Close()
	d.launcher.Close()
	d.sweep.Wait()
	if d.devices != nil {
		d.devices.Close()
	}
	if d.files != nil {
		return d.files.Remove()
	}
	return nil
}

// sources returns the directory that holds neso_worker, unpacking it at the
// first call.
func (d *driver) sources() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return "", backend.Errorf(backend.Unavailable, "the Python backend is closed")
	}
	if d.files != nil {
		return d.files.Path, nil
	}
	dir, err := scratch.New(scratchPrefix)
	if err != nil {
		return "", fmt.Errorf("unpack the Python worker: %w", err)
	}
	if err := unpack(dir.Path, d.user != nil, d.hosted != nil); err != nil {
		return "", fmt.Errorf("unpack the Python worker: %w", errors.Join(err, dir.Remove()))
	}
	d.files = dir
	d.sweep.Go(func() { scratch.Sweep(scratchPrefix) }) // beside the start of the first worker
	return dir.Path, nil
}

// unpack writes the worker's sources; shared says that another user reads them,
// frameworks that those for the models of frameworks are needed too.
func unpack(dir string, shared, frameworks bool) error {
	var others fs.FileMode
	if shared {
		others = 0o055
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return fs.WalkDir(pyfiles.Worker, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if e.IsDir() {
			if e.Name() == "frameworks" && !frameworks {
				return fs.SkipDir
			}
			return os.Mkdir(to, 0o700|others)
		}
		data, err := pyfiles.Worker.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o600|others&^0o011)
	})
}

// command says how to start a worker of the model.
func (d *driver) command(cfg *backend.Config) (process.Command, error) {
	dir, err := d.sources()
	if err != nil {
		return process.Command{}, err
	}
	bounds, err := limits.Of(cfg.Parameters)
	if err != nil {
		return process.Command{}, err
	}
	in, err := d.interpreterFor(cfg)
	if err != nil {
		return process.Command{}, err
	}
	entry := filepath.Join(dir, "neso_worker")
	c := process.Command{
		Path: in.path, Args: []string{entry, "--worker"},
		User: d.user, Limits: bounds, Confine: process.Confiner(d.options.WorkerBinary),
		Env: workerEnvironment(d.env, in.root, threads(len(cfg.Instances))),
	}
	// Forking is unsafe after Accelerate of macOS was used, and unknown to Windows.
	if runtime.GOOS == "linux" && os.Getenv("NESO_PYTHON_ZYGOTE") != "0" {
		c.Zygote = []string{entry, "--zygote"}
		if d.hosted != nil && d.hosted.Preload != "" {
			c.Zygote = append(c.Zygote, d.hosted.Preload)
		}
	}
	return c, nil
}
