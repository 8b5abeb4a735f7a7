package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/instance"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
	"github.com/nesoserve/neso/internal/stats"
)

// plan is a model that has been read and whose configuration holds as far as
// that can be said without its backend.
type plan struct {
	name     string
	nested   bool
	bare     bool     // see Request
	again    bool     // see Request
	back     bool     // see Request
	asItWas  *asItWas // set for a model that comes back as it was when it was evicted
	snapshot *repository.Snapshot
	draft    *draft.Draft
	policy   modelconfig.VersionPolicy
	ensemble bool
	parts    []string // of an ensemble
	// path leads here from the model that was asked for; holds are the parts that stay
	// as they are until the load has ended.
	path, holds []string
	// Of a model that programs serve: what runs each version, and its configuration.
	bound  map[int64]binding
	drafts map[int64]*draft.Draft
	// config and graph are set for an ensemble once its parts serve.
	config *modelconfig.Config
	graph  *ensemble.Graph
	// leaving are the instances that the load has taken away and that have not ended.
	leaving []<-chan struct{}
	effects *effects // nil where nobody asks
	// known says that the ensemble does not serve and is what it was when it did, or was
	// tried last.
	known bool
	// takesBack says that a program takes a version back: rules for the versions that do not
	// hold without it cannot keep it, and requests go to the latest one then.
	takesBack bool
}

// effects are what a load has done beside the model that was asked for.
type effects struct {
	// tried are the models that were loaded, or failed to.
	tried []string
	// unread is why a part could not be read, of the model that was asked for or that serves.
	unread error
}

func (p *plan) tried() {
	if p.effects != nil {
		p.effects.tried = append(p.effects.tried, p.name)
	}
}

// poll reads a model and its configuration. Its errors are reasons for "failed
// to poll from model repository".
func (m *Manager) poll(r Request) (*plan, error) {
	if bound := m.boundVersions(r.Name); bound != nil {
		return m.planBound(r, bound)
	}
	var snapshot *repository.Snapshot
	var err error
	if r.again {
		snapshot = m.lastOf(r.Name)
	}
	if snapshot == nil {
		snapshot, err = m.o.Repository.Read(m.ctx, r.Name, r.Config, r.Files, m.log)
	}
	if err != nil {
		if then := m.pollBack(r, err); then != nil {
			return then, nil
		}
		return nil, err
	}
	p := &plan{name: r.Name, nested: r.Nested, bare: r.bare, again: r.again, back: r.Back, snapshot: snapshot}
	if err := m.configure(p); err != nil {
		if p.ensemble && !r.bare {
			err = m.explain(p, err)
		}
		snapshot.Release()
		if then := m.pollBack(r, err); then != nil {
			return then, nil
		}
		return nil, err
	}
	return p, nil
}

// opened is the outcome of loading one version, or of making the instances that
// one gets beside those that it has.
type opened struct {
	version int64
	inPlace bool
	model   *model.Model
	change  *model.Change
	took    time.Duration
	err     error
}

// openAll loads or changes versions at the same time, as many as there are turns.
func (m *Manager) openAll(p *plan, versions []int64, changes map[int64]*model.Model) []opened {
	all := make([]opened, len(versions))
	var wg sync.WaitGroup
	for i, n := range versions {
		if o, ok := p.asItWas.take(n); ok {
			all[i] = o
			continue
		}
		wg.Go(func() {
			all[i] = m.openRetrying(p, n, changes[n])
		})
	}
	wg.Wait()
	return all
}

func (m *Manager) openRetrying(p *plan, n int64, there *model.Model) opened {
	if !p.nested {
		end, err := m.turns.Take(m.ctx, func() {
			m.log.Warn("the load of a model lasts long, or hangs: others are loaded beside it",
				"model", p.name, "version", n, "lasted", m.o.LoadPatience.String())
		})
		if err != nil {
			return opened{version: n, err: backend.Errorf(backend.Unavailable, "Server exiting")}
		}
		defer end()
	}
	defer m.starting.Load().opening(p.name)()
	m.log.Info(fmt.Sprintf("loading: %s:%d", p.name, n), "model", p.name, "version", n)
	start := time.Now()
	for attempt := 0; ; attempt++ {
		o := opened{version: n}
		var err error
		if there != nil {
			o.change, o.inPlace, err = m.change(m.ctx, p, n, there)
		}
		switch {
		case o.inPlace:
		case p.ensemble:
			o.model, err = m.openEnsemble(m.ctx, p, n)
		default:
			o.model, err = m.open(m.ctx, p, n)
		}
		if o.took = time.Since(start); err == nil {
			return o
		}
		err = m.all(p, n, err)
		m.log.Error(fmt.Sprintf("failed to load '%s' version %d: %s", p.name, n, reason.WithCode(err)), "model", p.name, "version", n)
		if attempt >= m.o.LoadRetries || m.ctx.Err() != nil {
			o.err = err
			return o
		}
	}
}

// open loads one version of what is no ensemble: the backend is opened if need be and completes the
// configuration, then the version is made and warmed up.
func (m *maker) open(ctx context.Context, p *plan, version int64) (loaded *model.Model, err error) {
	// A backend that panics fails its model, not the server.
	err = instance.Guard(m.log, "load model "+p.name, func() error {
		b, err := m.backendOf(ctx, p, version)
		if err != nil {
			return err
		}
		if err := m.checkRuntime(p, version); err != nil {
			return err
		}
		m.warnOfParameters(p, version)
		config, view, err := m.complete(ctx, p, version, b)
		if err != nil {
			return err
		}
		loaded, err = model.Open(ctx, model.Options{
			ServerSettings: m.o.ServerSettings, Config: config, BackendConfig: view, Backend: b, Allocator: m.o.Allocator, Logger: m.log,
			Cache: m.o.Cache, Observer: m.book.Observer(m.title(p.name, version, config)),
		})
		return err
	})
	return loaded, err
}

// title says under which labels a version counts.
func (m *maker) title(key string, version int64, c *modelconfig.Config) stats.Title {
	namespace, name := m.split(key)
	return stats.Title{Name: name, Namespace: namespace, Version: version, Tags: c.MetricTags}
}

// Numbers returns what all versions have counted since the server began, those
// included that are not loaded any more.
func (m *Manager) Numbers() []stats.Page { return m.book.Read() }
