package lifecycle

import (
	"context"
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/repository/inspect"
	"github.com/nesoserve/neso/internal/repository/layout"
)

// configure reads the configuration of a plan as far as it goes without the
// model's backend. Its error tells every fault of the model that can be found so.
func (m *maker) configure(p *plan) error {
	draft, err := m.draft(p)
	if err != nil && draft == nil {
		return err
	}
	if err != nil {
		p.ensemble, p.parts = draft.IsEnsemble(), draft.Parts()
		return m.inspect(p, draft, err).Faults
	}
	if err := m.runAgents(p, draft); err != nil {
		return err
	}
	if err := m.prove(p, draft); err != nil {
		report := m.inspect(p, draft.Clone(), nil)
		return report.With(err)
	}
	m.resolveParts(p)
	return nil
}

// prove takes a draft through the steps of a load up to the model's backend.
func (m *maker) prove(p *plan, draft *draft.Draft) error {
	if err := draft.CompleteBackend(p.snapshot.Name, layout.FirstVersion(os.DirFS(p.snapshot.Directory))); err != nil {
		return err
	}
	if p.snapshot.Renamed {
		draft.Rename(p.snapshot.Name)
	}
	draft.Normalize()
	p.draft, p.policy, p.ensemble, p.parts = draft, draft.Versions(), draft.IsEnsemble(), draft.Parts()
	if err := draft.Validate(m.o.DisableAutoComplete); err != nil {
		return err
	}
	if !p.snapshot.Renamed {
		return draft.CheckDirectory(filepath.Base(p.snapshot.Directory))
	}
	return nil
}

// inspect returns all that can be said of a model without its backend. The draft
// cannot be used after.
func (m *maker) inspect(p *plan, draft *draft.Draft, err error) inspect.Model {
	if p.snapshot.Renamed {
		draft.Rename(p.snapshot.Name)
	}
	return inspect.Draft(draft, inspect.Subject{
		Name: p.snapshot.Name, Directory: p.snapshot.Directory, Shown: p.snapshot.Name, Strict: m.o.DisableAutoComplete, GPUs: &m.o.GPUs,
		Options: inspect.Options{
			Backends: m.backends.names(), Driver: m.backends.driver,
			Parameters: model.Parameters, CheckParameter: model.CheckParameter, Words: m.o.Words,
		},
	}, err)
}

// all returns the error of a version that does not load with all else that keeps
// it from loading.
func (m *maker) all(p *plan, version int64, err error) error {
	if _, bound := p.bound[version]; bound || m.ctx.Err() != nil {
		return err
	}
	report := m.inspect(p, p.draft.Clone(), nil)
	return report.With(err)
}

func (m *maker) draft(p *plan) (*draft.Draft, error) {
	s := p.snapshot
	switch {
	case s.Config == nil && m.o.DisableAutoComplete:
		return nil, backend.Errorf(backend.NotFound, "model configuration is not provided for model '%s'", p.snapshot.Name)
	case s.Config == nil:
		return draft.New(), nil
	case s.ConfigPath == "":
		return draft.ParseJSON(s.Config, "parameters.config") // of the load request
	default:
		// Faults reach clients: they name the file as seen from the repository, which
		// says enough and nothing of the machine.
		file, err := filepath.Rel(s.Directory, s.ConfigPath)
		if err != nil {
			file = filepath.Base(s.ConfigPath)
		}
		return draft.Parse(s.Config, filepath.ToSlash(filepath.Join(p.snapshot.Name, file)))
	}
}

// complete makes the configuration of one version: its backend adds what the
// model itself knows, and then all of it must hold.
func (m *maker) complete(ctx context.Context, p *plan, version int64, b backend.Backend) (*modelconfig.Config, backend.Config, error) {
	draft := p.draftOf(version).Clone()
	can, err := m.capabilities(ctx, p, version, b)
	if err != nil {
		return nil, backend.Config{}, err
	}
	if err := draft.NormalizeInstances(m.o.GPUs, can); err != nil {
		return nil, backend.Config{}, err
	}
	dir, versionDir := p.snapshot.Directory, p.snapshot.VersionDirectory(version)
	cfg := draft.ToBackend(dir, versionDir, version)
	if cfg.Strict = m.o.DisableAutoComplete; can.Completes && (!cfg.Strict || can.Alters) {
		completed, err := b.Complete(ctx, cfg)
		if err != nil {
			return nil, backend.Config{}, err
		}
		if err := draft.Merge(completed); err != nil {
			return nil, backend.Config{}, err
		}
	}
	config, err := draft.Finish()
	if err != nil {
		return nil, backend.Config{}, err
	}
	return config, config.ToBackend(dir, versionDir, version), nil
}

// capabilities are those of a version's backend, with the instance groups that it
// prefers for the version where they matter.
func (m *maker) capabilities(ctx context.Context, p *plan, version int64, b backend.Backend) (backend.Capabilities, error) {
	can, draft := b.Capabilities(), p.draftOf(version)
	if can.PreferredFor == nil || !draft.LacksInstances() {
		return can, nil
	}
	cfg := draft.ToBackend(p.snapshot.Directory, p.snapshot.VersionDirectory(version), version)
	var err error
	can.Preferred, err = can.PreferredFor(ctx, &cfg)
	return can, err
}
