package lifecycle

import (
	"context"

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
	g := m.graphLocked()
	for name, parts := range m.composing {
		g[name] = append(g[name], parts...)
	}
	g[p.name] = p.parts
	if path := g.cycle(p.name); path != nil {
		return cycleError(path)
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
	if v := m.table.Load().models[name].find(version); v != nil {
		return v.Config()
	}
	return nil
}

// identity tells what a version that serves (the latest for -1) is made of.
func (m *Manager) identity(name string, version int64) (id responsecache.Identity, ok bool) {
	if v := m.table.Load().models[name].find(version); v != nil {
		return v.Identity(), true
	}
	return id, false
}

// recheck says which ensembles no longer fit a part that was loaded anew. They
// go on: what does not fit is the error of a request, with its reason.
func (m *Manager) recheck(part string) {
	m.mu.Lock()
	users := m.graphLocked().users(part)
	m.mu.Unlock()
	for _, user := range users {
		c := m.part(user, -1)
		if c == nil || c.Ensemble == nil {
			continue
		}
		graph, err := ensemble.NewGraph(c, m.part)
		switch {
		case err != nil:
			m.log.Error("ensemble no longer fits the model of a step", "model", user, "step", part, "error", err)
		case graph.Decoupled() != c.Decoupled:
			m.log.Error("ensemble has to be loaded again: the model of a step has another transaction policy", "model", user, "step", part)
		}
	}
}

func (m *Manager) openEnsemble(ctx context.Context, p *plan, version int64) (*model.Model, error) {
	return model.Open(ctx, model.Options{
		Config: p.config, BackendConfig: p.config.ToBackend(p.snapshot.Directory, p.snapshot.VersionDirectory(version), version),
		Graph: p.graph, Host: m.o.Steps, Allocator: m.o.Allocator, Logger: m.log,
		Observer: m.book.Observer(m.title(p.name, version, p.config)),
		Cache:    m.o.Cache, StepIdentity: m.identity, ServerSettings: m.o.ServerSettings,
	})
}
