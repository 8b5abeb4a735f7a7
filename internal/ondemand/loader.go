package ondemand

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/residency"
	"github.com/nesoserve/neso/internal/setting"
)

// Settings are what the operator says.
type Settings struct {
	// MemoryLimit is how many bytes of the machine's memory all models may have
	// together; 0 for any number.
	MemoryLimit int64
	// LoadTimeout is how long a request waits for its model; default a minute.
	LoadTimeout time.Duration
	// MaxWaiting is how many requests may wait at the same time; default 1024.
	MaxWaiting int
	// Loads is how many models are loaded at the same time; default half of the
	// processors.
	Loads int
	// MinResidency is how long a model that came in is not evicted; default a second,
	// negative for none.
	MinResidency time.Duration
	// IdleTimeout is after how long without requests a model leaves; default never.
	IdleTimeout time.Duration
}

// Defaults of Settings.
const (
	defaultTimeout   = time.Minute
	defaultWaiting   = 1024
	defaultResidency = time.Second
)

// Patience is how long a load keeps others out.
func (s Settings) Patience() time.Duration { return cmp.Or(s.LoadTimeout, defaultTimeout) }

// remeasure is after how long the memory of a model is looked at again.
const remeasure = 2 * time.Second

// Options are what a Loader needs.
type Options struct {
	Settings
	Life       *lifecycle.Manager
	Repository *repository.Repository
	Logger     *slog.Logger
	Words      setting.Words
}

// Loader loads and evicts. A nil Loader has nothing to load.
type Loader struct {
	o         Options
	catalogue catalogue
	wake      chan struct{} // of capacity 1: something has happened

	ctx  context.Context // ends when loads must stop
	stop context.CancelFunc
	work sync.WaitGroup

	mu       sync.Mutex
	machine  *residency.Machine
	last     uint64 // id of a waiter
	waiters  map[uint64]*waiter
	known    map[string][]*known // of models that have been in, by version
	waits    uint64              // that have ended, of requests
	timedOut uint64              // of these
	waited   time.Duration       // by these

	measured map[string]measure // used by the loop alone
}

// measure is how much memory versions had at a moment.
type measure struct {
	of     *model.Model // the latest of them
	at     int64
	bytes  int64
	traits residency.Traits // of that one
}

// known is a version as it was when it was in last.
type known struct {
	version int64
	config  *modelconfig.Config
}

// New returns a Loader that does nothing before Start.
func New(o Options) *Loader {
	o.LoadTimeout, o.MaxWaiting = o.Patience(), cmp.Or(o.MaxWaiting, defaultWaiting)
	o.MinResidency, o.Loads = cmp.Or(o.MinResidency, defaultResidency), cmp.Or(o.Loads, max(1, runtime.GOMAXPROCS(0)/2))
	l := &Loader{
		o: o, wake: make(chan struct{}, 1), waiters: map[uint64]*waiter{}, known: map[string][]*known{}, measured: map[string]measure{},
		machine: residency.New(residency.Settings{
			Limit: o.MemoryLimit, Loads: o.Loads, Waiting: o.MaxWaiting, LeastStay: max(0, o.MinResidency), Patience: o.LoadTimeout,
			Words: o.Words,
		}),
	}
	l.catalogue.list = o.Repository.List
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Start begins to load and evict.
func (l *Loader) Start() {
	if l == nil {
		return
	}
	l.work.Go(l.run)
}

// Close ends that. Who waits is told that the server stops.
func (l *Loader) Close() {
	if l == nil {
		return
	}
	l.stop()
	l.work.Wait()
}

// signal has the loop look again.
func (l *Loader) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// run is the loop.
func (l *Loader) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
		if next := l.turn(); next != 0 {
			timer.Reset(max(0, time.Duration(next-backend.Now())))
		} else {
			timer.Stop()
		}
	}
}

// turn decides once, and has done what is decided. It returns when to look again if
// nothing happens; 0 for never.
func (l *Loader) turn() (next int64) {
	l.measure(l.o.Life.Residents())
	processors.GiveWay()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := backend.Now()
	// Under the lock, so that it is not older than an event that the machine knows.
	in := l.o.Life.Residents()
	residents, models := make([]residency.Resident, len(in)), make(map[string][]*model.Model, len(in))
	for i := range in {
		residents[i] = residency.Resident{Name: in[i].Name, Parts: in[i].Parts, Fixed: in[i].Fixed, Traits: l.traits(&in[i])}
		models[in[i].Name] = in[i].Models
	}
	l.machine.Sync(now, residents)
	actions, next := l.machine.Step(now, func(name string) residency.Look { return l.look(name, models[name]) })
	for i := range actions {
		l.perform(actions[i])
	}
	if soon := now + int64(remeasure); l.o.MemoryLimit > 0 && len(in) > 0 && (next == 0 || soon < next) {
		next = soon // what is in may grow
	}
	return next
}

// look is what the versions of a model do at the moment.
func (l *Loader) look(name string, models []*model.Model) residency.Look {
	look := residency.Look{Bytes: l.measured[name].bytes}
	for _, m := range models {
		look.Busy = look.Busy || m.Unfinished() > 0
		look.Used = max(look.Used, m.Used())
	}
	return look
}

// measure looks how much memory the models have. Backends are asked, so that it is not
// done under the lock.
func (l *Loader) measure(in []lifecycle.Resident) {
	now, there := backend.Now(), make(map[string]bool, len(in))
	for i := range in {
		r := &in[i]
		there[r.Name] = true
		latest := r.Models[len(r.Models)-1]
		if old := l.measured[r.Name]; old.of == latest && now-old.at < int64(remeasure) {
			continue
		}
		n := measure{of: latest, at: now, traits: l.traitsOf(latest.Config())}
		for _, m := range r.Models {
			n.bytes += int64(m.HostMemory())
		}
		l.measured[r.Name] = n
	}
	for name := range l.measured {
		if !there[name] {
			delete(l.measured, name)
		}
	}
}

// traits are those of the latest version.
func (l *Loader) traits(r *lifecycle.Resident) residency.Traits {
	latest := r.Models[len(r.Models)-1]
	if known := l.measured[r.Name]; known.of == latest {
		return known.traits
	}
	return l.traitsOf(latest.Config())
}

func (l *Loader) traitsOf(c *modelconfig.Config) residency.Traits {
	t := residency.Traits{Idle: l.o.IdleTimeout}
	if c == nil {
		return t
	}
	o, err := model.OnDemandOf(c)
	if err != nil {
		return t // the load says so
	}
	t.Pin, t.Priority = o.Pin, o.Priority
	if o.Idle >= 0 {
		t.Idle = o.Idle
	}
	return t
}

// Check refuses settings that have no meaning.
func (s Settings) Check(words setting.Words) error {
	for name, wrong := range map[string]bool{
		"model-memory-limit": s.MemoryLimit < 0, "on-demand-timeout-secs": s.LoadTimeout < 0, "on-demand-max-waiting": s.MaxWaiting < 0,
		"on-demand-load-count": s.Loads < 0, "on-demand-idle-secs": s.IdleTimeout < 0,
	} {
		if wrong {
			return backend.Errorf(backend.InvalidArg, "%s is below 0", words.Name(name))
		}
	}
	return nil
}
