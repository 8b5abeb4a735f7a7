package lifecycle

import (
	"context"

	"github.com/nesoserve/neso/internal/instance"
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
	bare     bool // see Request
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
}

// poll reads a model and its configuration. Its errors are reasons for "failed
// to poll from model repository".
func (m *Manager) poll(r Request) (*plan, error) {
	if bound := m.boundVersions(r.Name); bound != nil {
		return m.planBound(r, bound)
	}
	snapshot, err := m.o.Repository.Read(m.ctx, r.Name, r.Config, r.Files, m.log)
	if err != nil {
		return nil, err
	}
	p := &plan{name: r.Name, nested: r.Nested, bare: r.bare, snapshot: snapshot}
	if err := m.configure(p); err != nil {
		if p.ensemble && !r.bare {
			err = m.explain(p, err)
		}
		snapshot.Release()
		return nil, err
	}
	return p, nil
}

// open loads one version: the backend is opened if need be and completes the
// configuration, then the version is made and warmed up.
func (m *Manager) open(ctx context.Context, p *plan, version int64) (loaded *model.Model, err error) {
	if p.ensemble {
		return m.openEnsemble(ctx, p, version)
	}
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
func (m *Manager) title(key string, version int64, c *modelconfig.Config) stats.Title {
	namespace, name := m.split(key)
	return stats.Title{Name: name, Namespace: namespace, Version: version, Tags: c.MetricTags}
}

// Numbers returns what all versions have counted since the server began, those
// included that are not loaded any more.
func (m *Manager) Numbers() []stats.Page { return m.book.Read() }
