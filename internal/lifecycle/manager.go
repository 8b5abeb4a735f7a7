package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/lifecycle/departing"
	"github.com/nesoserve/neso/internal/lifecycle/routing"
	"github.com/nesoserve/neso/internal/lifecycle/turns"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/refusals"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/repository/agent"
	"github.com/nesoserve/neso/internal/responsecache"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// LoadSettings are the settings of the server for loads and unloads, those that
// models obey included.
type LoadSettings struct {
	model.ServerSettings
	DisableAutoComplete bool
	// AgentDir is where libraries of repository agents lie.
	AgentDir string
	// GPUs are those that models may use.
	GPUs gpu.Set
	// LoadThreads bounds how many versions load at once; at least 1.
	LoadThreads int
	// LoadPatience is how long a load counts among them: one that hangs must not keep the
	// others out; default ten minutes.
	LoadPatience time.Duration
	// LoadRetries is how often a failed load is tried again.
	LoadRetries int
	// NewObserver makes what sees the successful requests of a version, besides
	// its statistics; it may be nil and may return nil.
	NewObserver func() stats.Observer
	// DrainTimeout bounds how long a version that was replaced or unloaded waits
	// for its requests; 0 means five minutes.
	DrainTimeout time.Duration
}

// Options are what a manager needs to load models.
type Options struct {
	LoadSettings
	Repository *repository.Repository
	Backends   []backend.Driver
	// Libraries runs repository agents that are libraries; it may be nil.
	Libraries backend.Libraries
	// Host is given to every backend.
	Host backend.Host
	// Settings returns what the command line says to a backend.
	Settings func(backendName string) backend.Settings
	// Allocator gives ordinary memory to models whose backend has none.
	Allocator tensor.Allocator
	// Steps is the way of ensembles to the models of their steps.
	Steps ensemble.Host
	// Cache is the server's response cache, or nil.
	Cache responsecache.Store
	// Refusals notes what is refused for security.
	Refusals *refusals.Book
	Logger   *slog.Logger
}

// defaultDrain is long, since a reload promises that no request fails, and
// bounded, since a request that never ends must not keep a version for ever.
const defaultDrain = 5 * time.Minute

const (
	// defaultPatience is longer than loads take that an operator wants one after the other.
	defaultPatience = 10 * time.Minute
	// maxLate bounds how many loads go on beside those that count.
	maxLate = 64
)

// Manager loads and unloads models.
type Manager struct {
	maker
	*routing.Router // how requests find versions
	publish         func(*routing.Table)
	turns           *turns.Turns // of versions that load
	starting        atomic.Pointer[startup]

	stop context.CancelFunc // of maker.ctx
	// drains ends when versions that drain must close at once.
	drains      context.Context
	stopDrains  context.CancelFunc
	ended       context.Context // ends when everything that can be closed is
	end         context.CancelFunc
	loads       sync.WaitGroup
	retirements sync.WaitGroup
	closing     sync.Once
	closed      chan struct{}
	closeErr    error

	mu     sync.Mutex
	refuse bool // no further loads or unloads
	models catalog
	claims claims
	// bound is what programs serve, by name and version; the inner maps are never
	// changed. generation counts the bindings ever made.
	bound      map[string]map[int64]binding
	generation uint64
	// composing holds the parts of ensembles that are being loaded.
	composing map[string][]string
	// leaving are models that serve until a Reconcile has loaded what takes their place.
	leaving []string
	// departing holds the versions that are being closed.
	departing departing.Set

	calls calls
	// lingering are the closes of versions whose backend ignored its interruption.
	lingering sync.WaitGroup
}

// entry is all that is known of one model.
type entry struct {
	versions map[int64]*version
	// snapshot is what the ready versions were made from; nil when none is.
	snapshot *repository.Snapshot
	// parts are the models that an ensemble is made of.
	parts []string
	// had is what the model was when it was evicted last; nil once it was unloaded.
	had *past
	// pulled says that an ensemble brought the model in, and not who asked for it.
	pulled bool
	// wants are the parts of the ensemble that was tried last, loaded or not.
	wants []string
	// returns is what an ensemble that does not serve comes back from with its parts; nil
	// for one that nobody has asked for, or that was unloaded by its name.
	returns *repository.Snapshot
	// failure says why the model has no version at all. unread marks one whose
	// configuration could not even be read, or an ensemble that fails validation: the
	// peer does not count it among the known models.
	failure string
	unread  bool
	// rules say how requests are shared among the versions.
	rules routing.Rules
	// rejected says why the latest change of a model that serves was not taken, lacks why one
	// has come back that is not all that the repository has.
	rejected string
	lacks    error
}

// version is what is known of one version.
type version struct {
	state  State
	reason string
	// unwanted says that it was unloaded: it does not count against readiness, whatever
	// has kept it from loading before.
	unwanted bool
	moves    int           // tells a drain whether it still speaks for the version
	left     chan struct{} // while unloading: closed by the next move
	model    *model.Model  // set while ready
	source   *repository.Snapshot
	draft    *draft.Draft // what it was loaded from; set while ready
	took     time.Duration
}

// numbers returns the version numbers in ascending order.
func (e *entry) numbers() []int64 { return slices.Sorted(maps.Keys(e.versions)) }

// ready returns the versions that are ready, in ascending order; nil when none is.
func (e *entry) ready() (all []*model.Model) {
	for _, n := range e.numbers() {
		if v := e.versions[n]; v.state == Ready {
			all = append(all, v.model)
		}
	}
	return all
}

// blame records why the model has no version that serves. Versions that failed
// to load earlier say so too: their own reason speaks of files that have changed.
func (e *entry) blame(reason string) {
	e.failure = reason
	for _, v := range e.versions {
		if v.state == Ready {
			return // the model serves on
		}
	}
	for _, v := range e.versions {
		if v.state == Unavailable && !v.unwanted {
			v.reason = reason
		}
	}
}

// New returns a manager with nothing loaded.
func New(o Options) *Manager {
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = defaultDrain
	}
	o.LoadPatience = cmp.Or(o.LoadPatience, defaultPatience)
	m := &Manager{
		maker:  maker{o: o, log: o.Logger, book: stats.NewBook(o.NewObserver), backends: newBackends(o)},
		turns:  turns.New(o.LoadThreads, o.LoadPatience, maxLate),
		closed: make(chan struct{}),
		models: catalog{map[string]*entry{}, o.Repository}, claims: newClaims(),
		bound: map[string]map[int64]binding{}, composing: map[string][]string{},
		departing: departing.Set{}, calls: calls{seen: map[call]bool{}},
	}
	m.agents = agent.NewSet(o.AgentDir, o.Libraries, o.Host, o.Logger)
	m.Router, m.publish = routing.New()
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.drains, m.stopDrains = context.WithCancel(context.Background())
	m.o.GivenUp = m.drains.Done()
	m.ended, m.end = context.WithCancel(context.Background())
	return m
}

// Version is the state of one version as others see it.
type Version struct {
	Name string
	// Key is the name with its namespace, which is empty without namespacing.
	Key, Namespace string
	Version        int64 // 0 for a model without versions
	State          State
	Reason         string
	// Unwanted says that it was unloaded, perhaps after a load that had failed for Reason.
	Unwanted bool
	// Bound says that a program has bound the model: no repository has it.
	Bound bool
	// LoadTime is how long the load took, for a ready version.
	LoadTime time.Duration
	// Model is set for a ready version.
	Model *model.Model
}

// Versions returns all that is known of a model, or of all models for the
// empty name, by name and version.
func (m *Manager) Versions(name string) []Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := m.models.keys(name)
	if name == "" {
		names = slices.Sorted(maps.Keys(m.models.entries))
	}
	var all []Version
	for _, name := range names {
		e := m.models.entries[name]
		if e == nil {
			continue
		}
		namespace, plain := m.split(name)
		bound := m.bound[name] != nil
		if len(e.versions) == 0 {
			all = append(all, Version{Name: plain, Key: name, Namespace: namespace, State: Unavailable, Reason: e.failure, Bound: bound})
		}
		for _, n := range e.numbers() {
			v := e.versions[n]
			reason := v.reason
			switch {
			case v.state != Ready:
			case e.rejected != "":
				reason = "the latest change is not served: " + e.rejected
			default:
				if reason = e.rules.Standing(n); e.lacks != nil {
					reason = strings.TrimSuffix(incomplete+strings.TrimSpace(e.lacks.Error())+"; "+reason, "; ")
				}
			}
			all = append(all, Version{
				Name: plain, Key: name, Namespace: namespace, Version: n, State: v.state, Reason: reason,
				Unwanted: v.unwanted, Bound: bound, LoadTime: v.took, Model: v.model,
			})
		}
	}
	return all
}

// Explain says why Pin found no version, in the peer's words.
func (m *Manager) Explain(name string, version int64) *backend.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.models.ambiguous(name); err != nil {
		return backend.AsError(err)
	}
	e := m.models.entries[m.models.key(name)]
	switch {
	case e == nil || e.unread:
		return backend.Errorf(m.models.repository.Unknown(), "Request for unknown model: '%s' is not found", name)
	case version == -1:
		return backend.Errorf(backend.NotFound, "Request for unknown model: '%s' has no available versions", name)
	case e.versions[version] == nil:
		return backend.Errorf(backend.NotFound, "Request for unknown model: '%s' version %d is not found", m.models.key(name), version)
	default:
		return backend.Errorf(backend.Unavailable, "Request for unknown model: '%s' version %d is not at ready state", name, version)
	}
}

// AllReady returns nil when every known version serves or is not wanted, else
// what keeps the first one from it.
func (m *Manager) AllReady() error {
	for _, v := range m.Versions("") {
		switch {
		case v.Model != nil:
			if gone, err := m.Ready(v.Key, v.Version, v.Model); err != nil && !gone {
				return fmt.Errorf("model '%s' version %d is not ready: %w", v.Name, v.Version, err)
			}
		case v.State == Unloading || v.Unwanted:
		case v.Version == 0 && m.unread(v.Key):
		default:
			return fmt.Errorf("model '%s' version %d is at %s state: %s", v.Name, v.Version, v.State, v.Reason)
		}
	}
	return nil
}

func (m *Manager) unread(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models.entries[name]
	return e != nil && e.unread
}
