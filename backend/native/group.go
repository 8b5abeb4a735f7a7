package native

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/internal/logging"
)

// firstModel is the number of a model that has its process for itself.
const firstModel = 0

// endLimit is how long a library may take to end a model or an instance.
const endLimit = 10 * time.Second

// group is the models of one process, over all lives of it: what the process was
// told, the next one is told too.
type group struct {
	driver *driver
	key    string // in driver.shared, "" for a process of one model

	// mu is held while the process is told something.
	mu        sync.Mutex
	models    map[uint32]*model
	instances []*instance
	nextModel uint32
	next      uint32

	worker  atomic.Pointer[supervise.Worker] // nil before the first instance, and after the last
	list    sync.Mutex                       // guards told
	told    []*instance
	users   int // models that have not been closed; guarded by driver.mu
	current backend.InstanceState
}

func newGroup(d *driver, key string) *group {
	return &group{driver: d, key: key, models: map[uint32]*model{}, nextModel: firstModel}
}

// start starts the process, or takes first over, and tells it all that it is to
// know. Callers hold mu.
func (g *group) startLocked(ctx context.Context, spec supervise.Spec, first *supervise.Session) error {
	spec.Report = g.report
	spec.Restarted = g.restarted
	begun := false // set by the first call, which is within Start
	w, err := supervise.Start(ctx, spec, first, func(ctx context.Context, c *worker.Conn) (*worker.Instance, error) {
		if begun { // a later life, in a goroutine of its own
			g.mu.Lock()
			defer g.mu.Unlock()
		}
		begun = true
		loaded := first != nil && c == first.Conn
		return g.setupLocked(ctx, c, loaded)
	})
	if err != nil {
		return err
	}
	g.worker.Store(w)
	return nil
}

// setupLocked tells a process of all models and instances. The instance that it
// returns stands for the process: no batch is sent to it.
func (g *group) setupLocked(ctx context.Context, c *worker.Conn, loaded bool) (*worker.Instance, error) {
	for number, m := range g.models {
		if !loaded || number != firstModel {
			if _, err := load(ctx, c, g.driver.loadOf(&m.cfg, m.library, number, false)); err != nil {
				return nil, err
			}
		}
	}
	for _, i := range g.instances {
		if err := i.init(ctx, c); err != nil {
			return nil, err
		}
	}
	return c.Attach(worker.Instance{Number: 0, Name: "neso-host"}), nil
}

// report passes on how the process is.
func (g *group) report(s backend.InstanceState) {
	g.list.Lock()
	told := g.told
	g.current = s
	g.list.Unlock()
	for _, i := range told {
		if i.config.Report != nil {
			i.config.Report(s)
		}
	}
}

func (g *group) restarted() {
	g.list.Lock()
	told := g.told
	g.list.Unlock()
	if len(told) > 0 && told[0].config.Restarted != nil {
		told[0].config.Restarted()
	}
}

// tell changes who is told how the process is.
func (g *group) tellLocked() {
	list := append([]*instance(nil), g.instances...)
	g.list.Lock()
	g.told = list
	g.list.Unlock()
}

// add makes an instance, in the process that runs or in one that is started.
func (g *group) add(ctx context.Context, i *instance, spec func() (supervise.Spec, *supervise.Session, error)) error {
	if w := g.worker.Load(); w != nil { // without the lock, which a process that is started anew needs
		if _, err := w.Conn(ctx); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next++
	i.number = g.next
	g.instances = append(g.instances, i)
	var err error
	if g.worker.Load() == nil {
		var s supervise.Spec
		var first *supervise.Session
		if s, first, err = spec(); err == nil {
			g.models[i.model.number] = i.model
			err = g.startLocked(ctx, s, first)
		}
	} else {
		err = g.joinLocked(ctx, i)
	}
	if err != nil {
		g.instances = g.instances[:len(g.instances)-1]
		if g.worker.Load() == nil {
			delete(g.models, i.model.number)
		}
		return err
	}
	g.tellLocked()
	return nil
}

// joinLocked tells the process that runs of an instance, and of its model where it
// does not know that.
func (g *group) joinLocked(ctx context.Context, i *instance) error {
	c := g.worker.Load().Living()
	if c == nil {
		return worker.ErrEnded
	}
	m := i.model
	if g.models[m.number] == nil {
		if _, err := load(ctx, c, g.driver.loadOf(&m.cfg, m.library, m.number, false)); err != nil {
			return err
		}
		g.models[m.number] = m
	}
	return i.init(ctx, c)
}

// remove ends an instance.
func (g *group) remove(i *instance) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, other := range g.instances {
		if other == i {
			g.instances = append(g.instances[:k:k], g.instances[k+1:]...)
			g.tellLocked()
			g.callLocked(wire.KindUnload, i.number, host.Unload{})
			if in := i.at.Load(); in != nil {
				in.Conn().Detach(in)
			}
			return
		}
	}
}

// leave ends a model, and with the last one the process.
func (g *group) leave(m *model) error {
	w := g.drop(m)
	if w == nil {
		return nil
	}
	return w.Close() // without the lock, which a process that is started anew waits for
}

// drop forgets a model, and returns the process if it was the last one.
func (g *group) drop(m *model) *supervise.Worker {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.models[m.number] == m {
		delete(g.models, m.number)
		if len(g.models) > 0 || g.key == "" {
			g.callLocked(wire.KindUnload, 0, host.Unload{Model: &m.number})
		}
	}
	if len(g.models) > 0 {
		return nil
	}
	return g.worker.Swap(nil)
}

// callLocked tells the process of an end. One that has died needs not be told.
func (g *group) callLocked(kind wire.Kind, instance uint32, body any) {
	w := g.worker.Load()
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	c := w.Living()
	if c == nil {
		return
	}
	if _, err := c.Call(ctx, kind, instance, body); err != nil && c.Err() == nil {
		g.driver.log.Warn("a backend library reports an error of its end", slog.Any("error", plain(err)))
	}
}

// loadOf is what the process is told of a model.
func (d *driver) loadOf(cfg *backend.Config, lib library, number uint32, complete bool) host.Load {
	settings := d.settings
	if settings.Of != nil {
		settings.Values = settings.Of(cfg.Backend)
	}
	view := *cfg
	view.Instances = nil
	for k := range cfg.Instances {
		in := cfg.Instances[k]
		in.HostPolicy = nil
		view.Instances = append(view.Instances, in)
	}
	return host.Load{
		Model: number, Library: lib.path, Directory: lib.folder, Settings: settings, View: view, Complete: complete, Preload: lib.server,
		Verbose: d.log.Enabled(context.Background(), logging.LevelVerbose),
	}
}

// load sends LOAD and returns what the library has said.
func load(ctx context.Context, c *worker.Conn, l host.Load) (host.Loaded, error) {
	answer, err := c.Load(ctx, wire.KindLoad, 0, l)
	if err != nil {
		return host.Loaded{}, plain(err)
	}
	var body host.Loaded
	if err := json.Unmarshal(answer, &body); err != nil {
		return host.Loaded{}, fmt.Errorf("answer of neso-host for model '%s': %w", l.View.Name, err)
	}
	return body, nil
}

// init sends INIT and makes the instance known to the connection.
func (i *instance) init(ctx context.Context, c *worker.Conn) error {
	m := i.model
	body := host.Init{
		Model: m.number, Config: m.cfg.JSON, Instance: i.config, Inputs: m.tables.Inputs, Outputs: m.tables.Outputs,
		Decoupled: m.cfg.Decoupled, Iterative: m.cfg.Iterative,
	}
	if m.cfg.Decoupled {
		body.Window = stream.Window
	}
	if _, err := c.Load(ctx, wire.KindInit, i.number, body); err != nil {
		return plain(err)
	}
	i.at.Store(c.Attach(worker.Instance{
		Number: i.number, Name: i.config.Name, Caller: backend.Caller{
			Model: m.cfg.Name, Version: m.cfg.Version, Of: len(m.cfg.Instances), Instance: i.config.Name,
		},
		Tables: m.tables, Decoupled: m.cfg.Decoupled, Window: m.cfg.Decoupled, Arena: m.arena, InlineLimit: segment.DefaultInlineLimit,
		Limit: i.limit,
	}))
	return nil
}
