package native

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/internal/scratch"
)

// Plugin is a library that is no backend, and how a neso-host that runs it is started.
type Plugin struct {
	// Path is the library, Server the names by which it asks for that of the server,
	// other than the usual one.
	Path   string
	Server []string

	driver *driver
	spec   supervise.Spec
}

// OpenPlugin looks at a library and finds neso-host for it. kind is what neso-host is
// told to be: "agent" or "cache".
func (o Options) OpenPlugin(kind string, l backend.Library) (*Plugin, error) {
	if runtime.GOOS != "linux" {
		return nil, backend.Errorf(backend.Unsupported, "libraries of a %s are run on Linux only: '%s'", kind, l.Path)
	}
	lib := library{path: l.Path}
	if err := lib.read(); err != nil {
		return nil, err
	}
	host, err := o.findHost()
	if err != nil {
		return nil, err
	}
	user, err := process.FindUser(o.WorkerUser, "worker-user")
	if err != nil {
		return nil, err
	}
	log := l.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With(slog.String(kind, l.Name))
	d := &driver{options: o, user: user, log: log, launcher: &process.Launcher{Logger: log}, links: map[string]*scratch.Dir{}}
	env := d.environment()
	if len(lib.server) > 0 {
		folder, err := d.linksFor(host, lib)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		env = prepend(env, "LD_LIBRARY_PATH", folder)
	}
	return &Plugin{Path: l.Path, Server: lib.server, driver: d, spec: supervise.Spec{
		Launcher: d.launcher, Name: l.Name, Logger: log, Host: measuring(l.Host),
		Command: process.Command{
			Path: host, Args: []string{kind}, Env: env, User: user, Confine: process.Confiner(o.WorkerBinary),
		},
	}}, nil
}

// measured is a host of which a process may have metrics, and nothing else.
type measured struct{ backend.Host }

func measuring(h backend.Host) backend.Host {
	if h == nil {
		return nil
	}
	return measured{h}
}

func errOnlyMetrics() error {
	return backend.Errorf(backend.Unsupported, "the library of a repository agent or a response cache may ask the server for metrics alone")
}

func (measured) Infer(*backend.Request) error { return errOnlyMetrics() }

func (measured) Load(context.Context, string, string, map[string][]byte) error {
	return errOnlyMetrics()
}

func (measured) Unload(context.Context, string, bool) error { return errOnlyMetrics() }

func (measured) Ready(string, int64) bool { return false }

func (measured) Document(backend.Question) ([]byte, error) { return nil, errOnlyMetrics() }

func (measured) Activity(string, string, int64) {}

// Spec says how to start a process for it.
func (p *Plugin) Spec() supervise.Spec { return p.spec }

// Log is where its processes log to.
func (p *Plugin) Log() *slog.Logger { return p.driver.log }

// Share lets the user that the processes run as use a directory.
func (p *Plugin) Share(directory string) error {
	u := p.driver.user
	if u == nil {
		return nil
	}
	return os.Chown(directory, int(u.UID), int(u.GID))
}

// Close removes what was made for the processes, of which none lives any more.
func (p *Plugin) Close() error { return p.driver.Close() }

// Plain turns an error that the worker told into that error.
func Plain(err error) error { return plain(err) }
