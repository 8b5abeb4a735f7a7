// Package model owns one loaded version of a model: its configuration, its
// instances, its scheduler, its numbers and its warm-up. Open model.go first,
// then infer.go, which is hop 3 of a request.
package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/instance"
	"github.com/nesoserve/neso/internal/lane"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/responsecache"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/internal/scheduler/dynamic"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
	"github.com/nesoserve/neso/internal/setting"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// Parameters are those of a configuration that the server itself reads, whatever
// the model's backend.
var Parameters = []string{coalesceParameter, paramBacklog, paramStrict, paramObjective, paramPin, paramIdle, paramPriority}

// CheckParameter returns what a load says of the value of one of Parameters.
func CheckParameter(c *modelconfig.Config, name string) (err error) {
	switch name {
	case coalesceParameter:
		_, err = coalesces(c)
	case paramBacklog:
		_, err = backlogOf(c)
	case paramStrict:
		_, err = strictOutputs(c, &Options{})
	case paramObjective:
		_, err = latencyObjective(c)
	case paramPin, paramIdle, paramPriority:
		if _, err = OnDemandOf(c); err != nil && !strings.Contains(err.Error(), "'"+name+"'") {
			err = nil // that is the fault of another one of them
		}
	}
	return err
}

// ServerSettings are the settings of the server that its models obey, the same for
// all of them.
type ServerSettings struct {
	instance.Settings
	// WarmupInStatistics counts warm-up runs as Triton does.
	WarmupInStatistics bool
	// StrictOutputs makes outputs of other datatypes and shapes than configured, and
	// missing ones, errors, unless the model says otherwise.
	StrictOutputs bool
	// RateLimiter makes instances wait for the resources that they need; nil for
	// none.
	RateLimiter *ratelimit.Limiter
	// HostPolicies say where instances run.
	HostPolicies HostPolicies
	// HoldRequests makes a batcher wait until so many requests are queued before it
	// runs the first, that of sequences also until HoldBacklog requests wait for a
	// slot. For tests.
	HoldRequests, HoldBacklog int
}

// Options say what to load and with what.
type Options struct {
	ServerSettings
	Config *modelconfig.Config
	// Backend is the view of the configuration for the backend, directories
	// included.
	BackendConfig backend.Config
	Backend       backend.Backend
	// Allocator gives ordinary pooled memory, used where the backend has none.
	Allocator tensor.Allocator
	Logger    *slog.Logger
	// Observer sees each successful request, besides the statistics; may be nil.
	Observer stats.Observer
	// Graph and Host are for ensembles, which have no backend: what the steps are,
	// and the way to their models.
	Graph *ensemble.Graph
	Host  ensemble.Host
	// Cache is the server's response cache, or nil. StepIdentity tells what a step
	// of an ensemble is made of.
	Cache        responsecache.Store
	StepIdentity func(name string, version int64) (responsecache.Identity, bool)
}

// Model is one loaded version.
type Model struct {
	config    *modelconfig.Config                // as it was loaded
	current   atomic.Pointer[modelconfig.Config] // with the instances that there are now
	planned   []plannedInstance                  // of current
	version   int64
	directory string // of the model
	io        io
	allocator tensor.Allocator
	loaded    backend.Model   // nil for an ensemble
	pool      *instance.Pool  // nil for an ensemble
	graph     *ensemble.Graph // nil for other models
	host      ensemble.Host
	limits    *ratelimit.Group // nil without a rate limiter
	policies  HostPolicies
	scheduler scheduler.Scheduler
	objective time.Duration   // within which requests are to be answered; 0 for none
	line      *scheduler.Line // before the default scheduler; nil with another one
	stats     *stats.Version
	labels    map[string][]string
	text      string          // the output in which it writes texts, see TextOutput
	sequence  *sequenceInputs // nil for other schedulers
	logger    *slog.Logger
	words     setting.Words // of messages
	lingers   bool          // see backend.Capabilities
	quick     bool          // of Capabilities.Quick
	devices   devices
	cache     *cache
	identity  func() responsecache.Identity
	steps     func(name string, version int64) (responsecache.Identity, bool)

	// pins counts requests, plus the constant closing once Close has begun: one
	// atomic operation pins or unpins.
	pins atomic.Int64
	// used is when a request came last; see Use.
	used   atomic.Int64
	worked workerCPU
	// abandoned counts those pins whose execution was abandoned.
	abandoned atomic.Int64
	door      lane.Door
	drained   chan struct{} // of capacity 1: pins may have come down to closing

	closing   atomic.Bool // Close has begun
	closeLock sync.Mutex  // held by the Close that does the work
	closed    bool
	closeErr  error
	// interrupted says that a Close has waited for the end of the executions that
	// it interrupted.
	interrupted bool
}

// Open loads the version, creates its instances and warms them up. On error
// everything it made is closed.
func Open(ctx context.Context, o Options) (*Model, error) {
	processors.GiveWay() // what led here took its time
	c := o.Config
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Model{
		config: c, version: o.BackendConfig.Version, directory: o.BackendConfig.Directory, logger: o.Logger, words: o.Words,
		stats: stats.NewVersion(o.Observer, c.HistogramBuckets[modelconfig.FirstResponseFamily]...), drained: make(chan struct{}, 1),
	}
	m.current.Store(c)
	m.text = textOutput(c)
	m.io.init(c)
	m.io.stats = m.stats
	if o.Backend != nil { // an ensemble has none
		can := o.Backend.Capabilities()
		m.lingers, m.io.loose, m.io.extras, m.io.arrange = can.Lingers, can.LooseOutputs, can.ExtraOutputs, !can.KeepsOrder
		m.quick = can.Quick != nil && can.Quick(&o.BackendConfig)
		m.devices = devicesOf(c, can, &o.BackendConfig)
	} else {
		m.devices = devices{takes: true, gives: true} // as far as its steps do
	}
	var err error
	if m.io.strict, err = strictOutputs(c, &o); err != nil {
		return nil, err
	}
	if m.objective, err = latencyObjective(c); err != nil {
		return nil, err
	}
	m.io.odd = func(outputs []string, found string) {
		m.logger.Warn("output is not as configured, it is passed on", "output", strings.Join(outputs, ","), "found", found, "model", c.Name,
			"version", m.version,
			"hint", m.words.Name("strict-outputs")+", or the model's parameter "+paramStrict+", makes it an error")
	}
	if _, err = OnDemandOf(c); err != nil {
		return nil, err
	}
	if m.sequence, err = newSequenceInputs(c, o.BackendConfig.Directory); err != nil {
		return nil, err
	}
	if m.labels, err = readLabels(c, o.BackendConfig.Directory); err != nil {
		return nil, err
	}
	if err = m.openCache(ctx, &o); err != nil {
		return nil, err
	}
	if m.cache != nil {
		m.devices = devices{} // its keys and answers are bytes
	}
	if c.Ensemble != nil {
		m.openEnsemble(&o)
		if m.cache != nil {
			m.Identity() // in a shared store the files of the steps are read now, not by the first request
		}
		return m, nil
	}
	if err := m.locateInstances(&o); err != nil {
		return nil, err
	}
	err = instance.Guard(m.logger, "load model "+c.Name, func() (err error) {
		m.loaded, err = o.Backend.Load(ctx, o.BackendConfig)
		return err
	})
	if err != nil {
		return nil, err
	}
	if m.loaded == nil {
		return nil, backend.Errorf(backend.Internal, "the backend of model '%s' loaded nothing", c.Name)
	}
	m.allocator = m.loaded.Allocator()
	if m.allocator == nil {
		m.allocator = o.Allocator
	}
	if err := m.start(ctx, &o); err != nil {
		m.limits.Close()
		return nil, errors.Join(err, m.closeLoaded())
	}
	return m, nil
}

// start makes the instances and the scheduler.
func (m *Model) start(ctx context.Context, o *Options) error {
	c := m.config
	samples, err := m.warmupSamples(m.directory)
	if err != nil {
		return err
	}
	if m.limits, err = limit(m.planned, o.RateLimiter); err != nil {
		return err
	}
	if m.limits.Limited() {
		m.sayLimits()
	}
	can := o.Backend.Capabilities()
	if can.DepthFor != nil {
		can.Depth = can.DepthFor(&o.BackendConfig)
	}
	p := instance.Options{
		Settings: o.Settings, Model: m.loaded, Capabilities: can, Instances: o.BackendConfig.Instances,
		Ragged: m.io.ragged, BatchInputs: c.BatchInputs, Scattered: o.BackendConfig.Scattered, Batching: c.MaxBatchSize > 0,
		Decoupled: c.Decoupled, Parallel: can.Parallel != nil && can.Parallel(&o.BackendConfig),
		Starts: can.Starts != nil && can.Starts(&o.BackendConfig),
		Limits: m.limits, Allocator: m.allocator, Stats: m.stats, Logger: m.logger,
	}
	if len(samples) > 0 {
		p.Warm = func(ctx context.Context, run instance.Run) error {
			return m.warm(ctx, samples, run, o.WarmupInStatistics)
		}
	}
	if m.pool, err = instance.Open(ctx, p); err != nil {
		return err
	}
	m.scheduler = m.newScheduler(o)
	return nil
}

func (m *Model) newScheduler(o *Options) scheduler.Scheduler {
	c := m.config
	if c.Sequence != nil || c.Dynamic != nil {
		m.stats.FormsBatches()
	}
	if c.Sequence != nil {
		return m.newSequence(o)
	}
	if c.Dynamic != nil {
		s := dynamic.New(dynamic.Options{
			Config: c.Dynamic, MaxBatchSize: c.MaxBatchSize, Compatible: scheduler.NewCompatibility(c),
			Executor: m.pool, Stats: m.stats, Hold: o.HoldRequests, Joins: m.joins(), Objective: m.objective,
		})
		if m.cache != nil && c.Dynamic.PreserveOrdering {
			m.cache.order = s
		}
		return s
	}
	s := scheduler.NewDirect(m.pool, m.stats)
	m.line = scheduler.NewLine(s, m.stats)
	return s
}

// joins is the model's own say in which requests come into a batch; nil for most.
func (m *Model) joins() func([]*backend.Request) (int, error) {
	f, ok := m.loaded.(backend.BatchFormer)
	if !ok || !f.FormsBatches() {
		return nil
	}
	if m.objective > 0 {
		m.logger.Warn("a model with a latency objective has no batching strategy of its own", "model", m.config.Name, "version", m.version)
		return nil
	}
	return func(requests []*backend.Request) (n int, err error) {
		err = instance.Guard(m.logger, "batching strategy of model "+m.config.Name, func() error {
			n, err = f.Joins(requests)
			return err
		})
		return n, err
	}
}

// Config returns the configuration, with the instances that there are now.
func (m *Model) Config() *modelconfig.Config { return m.current.Load() }

// Version returns the version number.
func (m *Model) Version() int64 { return m.version }

// OneAtATime stops sending batches ahead to instances that are busy.
func (m *Model) OneAtATime() {
	if m.pool != nil {
		m.pool.OneAtATime()
	}
}

// Limits are the resources that its instances share with others; nil without a
// rate limiter.
func (m *Model) Limits() *ratelimit.Group { return m.limits }

// Allocator gives memory for inputs, where the model wants them.
func (m *Model) Allocator() tensor.Allocator { return m.allocator }

// Labels returns the class labels of an output, or nil. An ensemble has those
// of the model that writes the output, unless it says its own.
func (m *Model) Labels(output string) []string {
	if labels := m.labels[output]; labels != nil || m.graph == nil {
		return labels
	}
	return m.stepLabels(output)
}

// Ready returns nil, or why the version cannot serve at present.
func (m *Model) Ready() error {
	if m.closing.Load() {
		return backend.Errorf(backend.Unavailable, "model '%s' version %d is being unloaded", m.config.Name, m.version)
	}
	if m.graph != nil {
		return m.stepsReady()
	}
	if h := m.pool.Health(); h.Replacing == h.Instances {
		return backend.Errorf(backend.Unavailable, "%s", m.Trouble())
	}
	return m.loaded.Ready()
}

// Trouble says what is wrong with a version that may serve all the same, or "".
func (m *Model) Trouble() string {
	switch h := m.Health(); {
	case h.Replacing > 0:
		return fmt.Sprintf("%d of %d instances hang and are being replaced", h.Replacing, h.Instances)
	case h.Stuck > 0:
		return fmt.Sprintf("%d of %d instances have made no progress for long", h.Stuck, h.Instances)
	}
	return ""
}

// Health is how the instances are; an ensemble has none.
func (m *Model) Health() instance.Health {
	if m.pool == nil {
		return instance.Health{}
	}
	return m.pool.Health()
}

// HostMemory returns how many bytes of the machine's memory the version has, as
// far as its backend knows.
func (m *Model) HostMemory() (sum uint64) {
	if u, ok := m.loaded.(backend.MemoryUser); ok {
		_ = instance.Guard(m.logger, "memory of model "+m.config.Name, func() error {
			sum = u.HostMemory()
			return nil
		})
	}
	if m.pool != nil {
		sum += m.pool.HostMemory()
	}
	return sum
}

// Memory is what the version has, for its statistics: what its code says of itself, or
// HostMemory where that says nothing.
func (m *Model) Memory() (usage []backend.MemoryUsage) {
	if r, ok := m.loaded.(backend.MemoryReporter); ok {
		said := false
		_ = instance.Guard(m.logger, "memory of model "+m.config.Name, func() error {
			usage, said = r.ReportedMemory()
			return nil
		})
		if said {
			return usage
		}
	}
	if bytes := m.HostMemory(); bytes > 0 {
		return []backend.MemoryUsage{{Type: "CPU", Bytes: bytes}}
	}
	return nil
}

// Watch looks for instances that hang; see instance.Pool.Watch.
func (m *Model) Watch(now int64) {
	if m.pool != nil {
		m.pool.Watch(now)
	}
}

// Stats returns the version's numbers.
func (m *Model) Stats() *stats.Version { return m.stats }

func (m *Model) closeLoaded() error {
	if m.loaded == nil {
		return nil
	}
	if err := instance.Guard(m.logger, "close model "+m.config.Name, m.loaded.Close); err != nil {
		return fmt.Errorf("close model '%s': %w", m.config.Name, err)
	}
	return nil
}
