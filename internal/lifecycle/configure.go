package lifecycle

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
)

func (m *Manager) configure(p *plan) error {
	if p.snapshot.Config == nil {
		if m.o.DisableAutoComplete {
			return backend.Errorf(backend.NotFound, "model configuration is not provided for model '%s'", p.name)
		}
		p.draft = &modelconfig.Draft{}
		return nil
	}
	d, err := modelconfig.Parse(p.snapshot.Config, p.snapshot.ConfigPath)
	if err != nil {
		return err
	}
	p.draft, p.policy = d, d.C.Versions
	if d.C.Ensemble != nil {
		for _, s := range d.C.Ensemble.Steps {
			p.parts = append(p.parts, s.Model)
		}
	}
	return nil
}

func (p *plan) backendName() string { return p.draft.C.Backend }

func (m *Manager) complete(ctx context.Context, p *plan, version int64, b backend.Backend) (*modelconfig.Config, backend.Config, error) {
	c, err := p.draft.Finish(p.name, version)
	if err != nil {
		return nil, backend.Config{}, err
	}
	view := backend.Config{Name: p.name, Version: version, Directory: p.snapshot.Directory, VersionDirectory: p.snapshot.VersionDirectory(version), Parameters: c.Parameters, Instances: []backend.InstanceConfig{{Name: p.name + "_0", Kind: "KIND_CPU"}}, Inputs: []backend.IO{{Name: "IN", Datatype: c.Inputs[0].Datatype, Dims: c.Inputs[0].Dims}}}
	if b.Capabilities().Completes && !m.o.DisableAutoComplete {
		if _, err := b.Complete(ctx, view); err != nil {
			return nil, view, err
		}
	}
	return c, view, nil
}
