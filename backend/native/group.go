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

	// mu is held while the process is told something, except within addUnlocked.
	mu        sync.Mutex
	models    map[uint32]*model // of which a new process is told
	instances []*instance
	nextModel uint32
	next      uint32
	telling   int // calls of addUnlocked that are under way

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
		if err := m.tell(ctx, c, loaded && number == firstModel); err != nil {
			return nil, err
		}
	}
	for _, i := range g.instances {
		if err := i.init(ctx, c); err != nil {
			return nil, err
		}
	}
	lead := worker.Instance{Number: 0, Name: "neso-host", InlineLimit: segment.DefaultInlineLimit}
	if m := g.models[firstModel]; m != nil { // then there is no other: calls that no instance makes are the model's
		lead.Caller, lead.Arena = backend.Caller{Model: m.cfg.Name, Version: m.cfg.Version}, m.arena
	}
	return c.Attach(lead), nil
}

// tell tells a process of the model, unless it knows it. Where loaded is set it has had
// the LOAD.
func (m *model) tell(ctx context.Context, c *worker.Conn, loaded bool) error {
	m.loading.Lock()
	defer m.loading.Unlock()
	if m.loaded == c {
		return nil
	}
	if !loaded {
		if _, err := load(ctx, c, m.driver.loadOf(&m.cfg, m.library, m.number, false)); err != nil {
			return err
		}
	}
	if err := m.batcher.init(ctx, c, m); err != nil {
		m.group.call(c, wire.KindUnload, 0, host.Unload{Model: &m.number})
		return err
	}
	m.loaded = c
	return nil
}

// report passes on how the process is.
func (g *group) report(s backend.InstanceState) {
	g.list.Lock()
	told := g.told
	g.current = s
	g.list.Unlock()
	for _, i := range told {
		i.report(s)
	}
}

// report passes on how the process is, with what the instance in it can be sent ahead.
func (i *instance) report(s backend.InstanceState) {
	if i.config.Report == nil {
		return
	}
	if in := i.at.Load(); in != nil && !s.Down {
		s.Ahead = in.Ahead()
	}
	i.config.Report(s)
}

// numbers returns those of a model's instances.
func (g *group) numbers(m *model) (all []uint32) {
	g.list.Lock()
	defer g.list.Unlock()
	for _, i := range g.told {
		if i.model == m {
			all = append(all, i.number)
		}
	}
	return all
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
	g.numberLocked(i)
	if g.key != "" || i.model.parallel {
		return g.addUnlocked(ctx, i, spec)
	}
	defer g.mu.Unlock()
	g.instances = append(g.instances, i)
	var err error
	if g.worker.Load() == nil {
		err = g.firstLocked(ctx, i, spec)
	} else if c := g.worker.Load().Living(); c == nil {
		err = worker.ErrEnded
	} else {
		err = i.init(ctx, c)
	}
	if err != nil {
		g.instances = g.instances[:len(g.instances)-1]
		return err
	}
	g.tellLocked()
	return nil
}

// numberLocked gives an instance its number in the process, and its model's batching
// library.
func (g *group) numberLocked(i *instance) {
	if b := i.model.batcher; b != nil && b.number == 0 {
		g.next++
		b.number = g.next
	}
	g.next++
	i.number = g.next
}

// firstLocked starts the process. One of a single model is told of that, and of the
// instances that there are.
func (g *group) firstLocked(ctx context.Context, i *instance, spec func() (supervise.Spec, *supervise.Session, error)) error {
	s, first, err := spec()
	if err != nil {
		return err
	}
	if g.key == "" {
		g.models[i.model.number] = i.model
	}
	s.GivenUp = i.config.GivenUp
	if err = g.startLocked(ctx, s, first); err != nil {
		delete(g.models, i.model.number)
	}
	return err
}

// addUnlocked is called with the lock, gives it up while the process makes the instance,
// and returns without it. Other instances and models of the process are made meanwhile:
// the library may ask for some while it makes this one. A process that is started anew
// meanwhile is told again.
func (g *group) addUnlocked(ctx context.Context, i *instance, spec func() (supervise.Spec, *supervise.Session, error)) error {
	g.telling++
	defer func() {
		g.telling--
		g.mu.Unlock()
	}()
	if g.worker.Load() == nil {
		if err := g.firstLocked(ctx, i, spec); err != nil {
			return err
		}
	}
	w := g.worker.Load()
	for {
		g.mu.Unlock()
		c, err := w.Conn(ctx)
		if err == nil {
			if err = i.model.tell(ctx, c, false); err == nil {
				err = i.init(ctx, c)
			}
			if err != nil {
				c.ForgetMemory(i.model.number, i.number)
			}
		}
		g.mu.Lock()
		switch {
		case err != nil:
			return err
		case w.Living() == c:
			g.models[i.model.number] = i.model
			g.instances = append(g.instances, i)
			g.tellLocked()
			return nil
		}
	}
}

// remove ends an instance.
func (g *group) remove(i *instance) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, other := range g.instances {
		if other == i {
			g.instances = append(g.instances[:k:k], g.instances[k+1:]...)
			g.tellLocked()
			g.callLocked(wire.KindUnload, i.number, host.Unload{Of: i.model.number})
			if in := i.at.Load(); in != nil {
				in.Conn().Detach(in)
				in.Conn().ForgetMemory(i.model.number, i.number)
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
	delete(g.models, m.number)
	m.loading.Lock()
	w := g.worker.Load()
	knows := w != nil && m.loaded != nil && w.Living() == m.loaded
	m.loading.Unlock()
	if knows {
		m.batcher.end(g, m)
		if len(g.models) > 0 || g.telling > 0 || g.key == "" {
			g.callLocked(wire.KindUnload, 0, host.Unload{Model: &m.number})
		}
	}
	if w != nil {
		if c := w.Living(); c != nil {
			c.ForgetMemory(m.number, 0) // it may have said something before its load has failed
		}
	}
	if len(g.models) > 0 || g.telling > 0 {
		return nil
	}
	return g.worker.Swap(nil)
}

// callLocked tells the process of an end. One that has died needs not be told.
func (g *group) callLocked(kind wire.Kind, instance uint32, body any) {
	if w := g.worker.Load(); w != nil {
		g.call(w.Living(), kind, instance, body)
	}
}

func (g *group) call(c *worker.Conn, kind wire.Kind, instance uint32, body any) {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
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
		Model: number, Library: lib.path, Directory: lib.folder, Settings: settings, View: view, Preload: lib.server,
		Complete: complete && !cfg.Strict, Verbose: d.log.Enabled(context.Background(), logging.LevelVerbose),
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
	board := c.NewBoard()
	body := host.Init{
		Model: m.number, Config: m.cfg.JSON, Instance: i.config, Inputs: m.tables.Inputs, Outputs: m.tables.Outputs,
		Decoupled: m.cfg.Decoupled, Iterative: m.cfg.Iterative, Board: board.Offset(), Parallel: m.parallel,
	}
	if m.cfg.Decoupled {
		body.Window = stream.Window
	}
	if _, err := c.Load(ctx, wire.KindInit, i.number, body); err != nil {
		c.FreeBoard(board)
		return plain(err)
	}
	i.at.Store(c.Attach(worker.Instance{
		Number: i.number, Name: i.config.Name, Caller: backend.Caller{
			Model: m.cfg.Name, Version: m.cfg.Version, Of: len(m.cfg.Instances), Instance: i.config.Name,
		},
		Tables: m.tables, Decoupled: m.cfg.Decoupled, Window: m.cfg.Decoupled, Arena: m.arena, InlineLimit: segment.DefaultInlineLimit,
		Limit: i.limit, Board: board, Responded: i.config.Responded,
	}))
	return nil
}
