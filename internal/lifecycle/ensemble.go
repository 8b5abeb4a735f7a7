package lifecycle

import (
	"context"

	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
)

// compose checks an ensemble, whose parts serve, against their configurations.
func (m *Manager) compose(p *plan) error {
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

func (m *Manager) openEnsemble(ctx context.Context, p *plan, version int64) (*model.Model, error) {
	return model.Open(ctx, model.Options{
		Config: p.config, BackendConfig: p.config.ToBackend(p.snapshot.Directory, p.snapshot.VersionDirectory(version), version),
		Graph: p.graph, Host: m.o.Steps, Allocator: m.o.Allocator, Logger: m.log, Observer: m.observer(),
	})
}
