package native

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/scratch"
	"github.com/nesoserve/neso/tensor"
)

// model is one version.
type model struct {
	driver  *driver
	cfg     backend.Config
	library library
	batcher *batcher // nil for a model without a batching library
	arena   *segment.Arena
	tables  wire.Tables
	group   *group
	number  uint32
	closed  atomic.Bool
	// parallel says that instances are initialized beside each other.
	parallel bool

	loading sync.Mutex   // held while a process is told of the model
	loaded  *worker.Conn // the one that was, guarded by loading
}

// instance is one instance of the library's.
type instance struct {
	model  *model
	config backend.InstanceConfig
	number uint32
	limit  time.Duration
	at     atomic.Pointer[worker.Instance] // in the process that lives, or lived last
	closed atomic.Bool
}

func newModel(d *driver, cfg backend.Config, lib, batching library) *model {
	var small tensor.Allocator
	if d.host != nil {
		small = d.host.Allocator()
	}
	m := &model{driver: d, cfg: cfg, library: lib, arena: segment.NewArena(small, segment.DefaultInlineLimit, 0)}
	if batching.path != "" {
		m.batcher = &batcher{library: batching}
	}
	for _, list := range [][]backend.IO{cfg.Inputs, cfg.BatchInputs} {
		for i := range list {
			m.tables.Inputs = append(m.tables.Inputs, list[i].Name)
		}
	}
	for i := range cfg.Outputs {
		m.tables.Outputs = append(m.tables.Outputs, cfg.Outputs[i].Name)
	}
	if isShared(&cfg) {
		m.group, m.number = d.join(&cfg, lib)
	} else {
		m.group = newGroup(d, "")
	}
	return m
}

// join returns the group of a library's models that are isolated alike, and a number in
// it.
func (d *driver) join(cfg *backend.Config, lib library) (*group, uint32) {
	is, _ := isolationOf(cfg) // checked before
	key := fmt.Sprintf("%d %s", is, lib.path)
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.shared[key]
	if g == nil {
		g = newGroup(d, key)
		d.shared[key] = g
	}
	g.users++
	g.nextModel++
	return g, g.nextModel
}

// part is the end of join.
func (g *group) part() {
	if g.key == "" {
		return
	}
	g.driver.mu.Lock()
	defer g.driver.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(g.driver.shared, g.key)
	}
}

// completeShared has a model complete its configuration in a process of its own, which
// ends then: the one that is shared may be about to end.
func (d *driver) completeShared(ctx context.Context, cfg *backend.Config, lib library) ([]byte, error) {
	spec, err := d.spec(cfg, lib)
	if err != nil {
		return nil, err
	}
	s, err := supervise.Launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	loaded, err := load(ctx, s.Conn, d.loadOf(cfg, lib, firstModel, true))
	return loaded.Config, err
}

// spec says how to start the process of a model.
func (d *driver) spec(cfg *backend.Config, lib library) (supervise.Spec, error) {
	if is, _ := isolationOf(cfg); is == here {
		most, _ := limits.LoadLimitOf(cfg.Parameters, d.settings.Values)
		return supervise.Spec{
			Launcher: d.launcher, Name: cfg.Name, Host: d.host, Logger: d.log.With(slog.String("backend", cfg.Backend)), LoadLimit: most,
			Command: process.Command{Here: d.worker()},
		}, nil
	}
	path, err := d.options.findHost()
	if err != nil {
		return supervise.Spec{}, err
	}
	env := d.environment()
	if len(lib.server) > 0 {
		folder, err := d.linksFor(path, lib)
		if err != nil {
			return supervise.Spec{}, err
		}
		env = prepend(env, "LD_LIBRARY_PATH", folder)
	}
	bounds, _ := limits.Of(cfg.Parameters) // checked before
	most, _ := limits.LoadLimitOf(cfg.Parameters, d.settings.Values)
	log := d.log.With(slog.String("backend", cfg.Backend))
	if !isShared(cfg) {
		log = log.With(slog.String("model", cfg.Name))
	}
	return supervise.Spec{
		Launcher: d.launcher, Name: cfg.Name, Host: d.host, Logger: log, LoadLimit: most,
		Command: process.Command{
			Path: path, Env: env, User: d.user, Limits: bounds, HostPolicy: commonPolicy(cfg),
			Confine: process.Confiner(d.options.WorkerBinary),
		},
	}, nil
}

// commonPolicy is where all instances of a model are to run; nil where they are to
// run in different places.
func commonPolicy(cfg *backend.Config) *backend.HostPolicy {
	if isShared(cfg) || len(cfg.Instances) == 0 {
		return nil
	}
	first := cfg.Instances[0].HostPolicy
	for k := range cfg.Instances {
		if !reflect.DeepEqual(cfg.Instances[k].HostPolicy, first) {
			return nil
		}
	}
	return first
}

// linksFor returns a folder in which the names by which a library asks for that of
// the server lead to ours.
func (d *driver) linksFor(hostPath string, lib library) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := hostPath + "\x00" + strings.Join(lib.server, "\x00")
	if dir := d.links[key]; dir != nil {
		return dir.Path, nil
	}
	const prefix = "neso-native-"
	dir, err := scratch.New(prefix)
	if err != nil {
		return "", err
	}
	if d.user != nil {
		_ = os.Chmod(dir.Path, 0o755)
	}
	for _, name := range lib.server {
		if err := os.Symlink(filepath.Join(filepath.Dir(hostPath), serverLibrary+".so"), filepath.Join(dir.Path, name)); err != nil {
			return "", err
		}
	}
	d.links[key] = dir
	return dir.Path, nil
}

// prepend puts a folder in front of those of a variable.
func prepend(env []string, name, folder string) []string {
	for i, line := range env {
		if rest, ok := strings.CutPrefix(line, name+"="); ok {
			env[i] = name + "=" + folder + string(filepath.ListSeparator) + rest
			return env
		}
	}
	return append(env, name+"="+folder)
}

// Allocator implements backend.Model.
func (m *model) Allocator() tensor.Allocator { return m.arena }

// NewInstance implements backend.Model.
func (m *model) NewInstance(ctx context.Context, in backend.InstanceConfig) (backend.Instance, error) {
	if err := limits.CheckHostPolicy(in.HostPolicy); err != nil {
		return nil, err
	}
	i := &instance{model: m, config: in}
	if text, ok := m.cfg.Parameters[paramLimit]; ok {
		i.limit, _ = limits.ParseSeconds(text) // checked before
	}
	err := m.group.add(ctx, i, func() (supervise.Spec, *supervise.Session, error) {
		spec, err := m.driver.spec(&m.cfg, m.library)
		if err != nil || m.group.key != "" {
			return spec, nil, err
		}
		return spec, m.driver.warm.Take(&m.cfg, m.cfg.Name), nil
	})
	if err != nil {
		return nil, err
	}
	i.report(backend.InstanceState{})
	return i, nil
}

// Ready implements backend.Model.
func (m *model) Ready() error {
	w := m.group.worker.Load()
	if w == nil {
		return nil
	}
	return w.Ready()
}

// Process implements backend.ProcessUser: that of all instances.
func (m *model) Process() int {
	if is, _ := isolationOf(&m.cfg); is == here {
		return 0 // it is the server's
	}
	if w := m.group.worker.Load(); w != nil {
		return w.Process()
	}
	return 0
}

// HostMemory implements backend.MemoryUser: the process is that of all instances.
func (m *model) HostMemory() uint64 {
	w := m.group.worker.Load()
	if m.group.key != "" || w == nil {
		return 0
	}
	return w.HostMemory()
}

// ReportedMemory implements backend.MemoryReporter: what the library says in the process
// that lives.
func (m *model) ReportedMemory() (usage []backend.MemoryUsage, ok bool) {
	w := m.group.worker.Load()
	if w == nil {
		return nil, false
	}
	c := w.Living()
	if c == nil {
		return nil, false
	}
	return c.ReportedMemory(m.number, m.group.numbers(m))
}

// Close implements backend.Model.
func (m *model) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	err := m.group.leave(m)
	m.group.part()
	m.arena.Close()
	return err
}

// Execute implements backend.Instance.
func (i *instance) Execute(ctx context.Context, batch *backend.Batch) error {
	w := i.model.group.worker.Load()
	if w == nil {
		return worker.ErrEnded
	}
	return w.ExecuteAs(ctx, batch, func(lead *worker.Instance) *worker.Instance {
		if in := i.at.Load(); in != nil && in.Conn() == lead.Conn() {
			return in
		}
		return nil
	})
}

// Close implements backend.Instance.
func (i *instance) Close() error {
	if !i.closed.Swap(true) {
		i.model.group.remove(i)
	}
	return nil
}
