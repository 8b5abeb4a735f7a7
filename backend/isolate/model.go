package isolate

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// loadBody is the body of LOAD for workers of this package.
type loadBody struct {
	Backend  string           `json:"backend"`
	Settings backend.Settings `json:"settings"`
	View     backend.Config   `json:"view"`
	Complete bool             `json:"complete"`
}

// loaded is the body of READY that answers LOAD.
type loaded struct {
	Config json.RawMessage `json:"config,omitempty"`
}

// initBody is the body of INIT.
type initBody struct {
	View     backend.Config         `json:"view"` // as completed
	Instance backend.InstanceConfig `json:"instance"`
	Inputs   []string               `json:"inputs"`
	Outputs  []string               `json:"outputs"`
	// Window is that of guest.Served, for decoupled models.
	Window int `json:"window,omitempty"`
}

// model is one version whose instances are workers.
type model struct {
	wrapped *wrapped
	cfg     backend.Config
	arena   *segment.Arena
	tables  wire.Tables

	mu      sync.Mutex
	workers map[*instance]struct{}
}

// instance is one worker.
type instance struct {
	*supervise.Worker
	model *model
}

func newModel(w *wrapped, cfg backend.Config) *model {
	m := &model{
		wrapped: w, cfg: cfg, arena: segment.NewArena(w.host.Allocator(), segment.DefaultInlineLimit, 0),
		workers: map[*instance]struct{}{},
	}
	for _, list := range [][]backend.IO{cfg.Inputs, cfg.BatchInputs} {
		for i := range list {
			m.tables.Inputs = append(m.tables.Inputs, list[i].Name)
		}
	}
	for i := range cfg.Outputs {
		m.tables.Outputs = append(m.tables.Outputs, cfg.Outputs[i].Name)
	}
	return m
}

// Allocator implements backend.Model: shared memory, where the worker reads
// inputs in place.
func (m *model) Allocator() tensor.Allocator { return m.arena }

// NewInstance implements backend.Model.
func (m *model) NewInstance(ctx context.Context, in backend.InstanceConfig) (backend.Instance, error) {
	w := m.wrapped
	if err := limits.CheckHostPolicy(in.HostPolicy); err != nil {
		return nil, err
	}
	spec := w.spec(&m.cfg, &in)
	spec.Restarted = in.Restarted
	spec.Report, spec.GivenUp = in.Report, in.GivenUp
	first := w.warm.Take(&m.cfg, in.Name)
	if first != nil && in.HostPolicy != nil { // it runs anywhere
		first.Stop()
		first = nil
	}
	in.HostPolicy = nil // the process has it
	setup := func(ctx context.Context, c *worker.Conn) (*worker.Instance, error) {
		if first == nil || c != first.Conn {
			if _, err := w.load(ctx, c, &m.cfg, in, false); err != nil {
				return nil, err
			}
		}
		body := initBody{View: m.cfg, Instance: in, Inputs: m.tables.Inputs, Outputs: m.tables.Outputs}
		body.View.Instances = []backend.InstanceConfig{in}
		if m.cfg.Decoupled {
			body.Window = stream.Window
		}
		if _, err := c.Load(ctx, wire.KindInit, 0, body); err != nil {
			return nil, plain(err)
		}
		return c.Attach(worker.Instance{
			Name: in.Name, Caller: backend.Caller{Model: m.cfg.Name, Version: m.cfg.Version, Of: len(m.cfg.Instances), Instance: in.Name},
			Tables: m.tables, Arena: m.arena, InlineLimit: segment.DefaultInlineLimit,
			Gather: m.cfg.MaxBatchSize > 0 && !m.cfg.Decoupled, Decoupled: m.cfg.Decoupled, Window: m.cfg.Decoupled,
		}), nil
	}
	run, err := supervise.Start(ctx, spec, first, setup)
	if err != nil {
		return nil, err
	}
	i := &instance{run, m}
	m.mu.Lock()
	m.workers[i] = struct{}{}
	m.mu.Unlock()
	return i, nil
}

// Ready implements backend.Model: all workers live.
func (m *model) Ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.workers {
		if err := i.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// Close implements backend.Model.
func (m *model) Close() error {
	m.arena.Close()
	return nil
}

// Close implements backend.Instance.
func (i *instance) Close() error {
	i.model.mu.Lock()
	delete(i.model.workers, i)
	i.model.mu.Unlock()
	return i.Worker.Close()
}
