package lifecycle

import (
	"context"

	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/responsecache"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
)

// compose notes that an ensemble will consist of its parts, unless it would be
// a part of itself then.
func (m *Manager) compose(p *plan) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.models.graph()
	for name, parts := range m.composing {
		g[name] = append(g[name], parts...)
	}
	g[p.name] = p.parts
	if path := g.Cycle(p.name); path != nil {
		return reason.Circle(path)
	}
	m.composing[p.name] = p.parts
	return nil
}

func (m *Manager) composed(p *plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.composing, p.name)
}

// check holds an ensemble, whose parts serve, against their configurations.
func (m *Manager) check(p *plan) error {
	config, err := p.draft.Clone().Finish()
	if err != nil {
		return err
	}
	graph, err := ensemble.NewGraph(config, m.part)
	if err != nil {
		return err
	}
	p.config, p.graph = config.WithDecoupled(graph.Decoupled()), graph
	return nil
}

// part returns the configuration of a version that serves, the latest for -1,
// or nil.
func (m *Manager) part(name string, version int64) *modelconfig.Config {
	return m.Table().Config(name, version)
}

// identity tells what a version that serves (the latest for -1) is made of.
func (m *Manager) identity(name string, version int64) (id responsecache.Identity, ok bool) {
	if v := m.Find(name, version); v != nil {
		return v.Identity(), true
	}
	return id, false
}

func (m *Manager) openEnsemble(ctx context.Context, p *plan, version int64) (*model.Model, error) {
	return model.Open(ctx, model.Options{
		Config: p.config, BackendConfig: p.config.ToBackend(p.snapshot.Directory, p.snapshot.VersionDirectory(version), version),
		Graph: p.graph, Host: m.o.Steps, Allocator: m.o.Allocator, Logger: m.log,
		Observer: m.book.Observer(m.title(p.name, version, p.config)),
		Cache:    m.o.Cache, StepIdentity: m.identity, ServerSettings: m.o.ServerSettings,
	})
}
