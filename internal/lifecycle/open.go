package lifecycle

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/repository"
)

// plan is a model that has been read and whose configuration holds as far as
// that can be said without its backend.
type plan struct {
	name     string
	snapshot *repository.Snapshot
	draft    *modelconfig.Draft
	policy   modelconfig.VersionPolicy
	parts    []string // of an ensemble
}

// poll reads a model and its configuration. Its errors are reasons for "failed
// to poll from model repository".
func (m *Manager) poll(name, config string, files map[string][]byte) (*plan, error) {
	snapshot, err := m.o.Repository.Read(m.ctx, name, config, files, m.log)
	if err != nil {
		return nil, err
	}
	p := &plan{name: name, snapshot: snapshot}
	if err := m.configure(p); err != nil {
		snapshot.Release()
		return nil, err
	}
	return p, nil
}

// open loads one version: the backend is opened if need be and completes the
// configuration, then the version is made and warmed up.
func (m *Manager) open(ctx context.Context, p *plan, version int64) (*model.Model, error) {
	if err := unsupported(p); err != nil {
		return nil, err
	}
	b, err := m.backends.get(ctx, p.backendName())
	if err != nil {
		return nil, err
	}
	config, view, err := m.complete(ctx, p, version, b)
	if err != nil {
		return nil, err
	}
	return model.Open(ctx, model.Options{
		Config: config, BackendConfig: view, Backend: b, Allocator: m.o.Allocator, Logger: m.log, WarmupInStatistics: m.o.WarmupInStatistics,
	})
}

// unsupported refuses what this server has no scheduler for.
func unsupported(p *plan) error {
	if len(p.parts) > 0 {
		return backend.Errorf(backend.Unsupported, "ensemble scheduling is not supported, model '%s' cannot be served", p.name)
	}
	return nil
}
