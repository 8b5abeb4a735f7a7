package onnxruntime

import (
	"context"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/modelfile"
	"github.com/nesoserve/neso/tensor"
)

// model is one loaded version.
type model struct {
	driver *driver
	cfg    backend.Config
	config *modelConfig
	plan   *plan

	mu     sync.Mutex
	shared *session // the first; also that of all instances unless they have their own
	taken  bool     // by the first instance that has its own

	closing sync.Once
}

// Load implements backend.Backend. The session is made here, so that a version
// with a fault fails before its instances are made.
func (d *driver) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	if cfg.Decoupled {
		return nil, backend.Errorf(backend.InvalidArg,
			"model '%s' is decoupled, which the onnxruntime backend does not support: an ONNX model gives one response", cfg.Name)
	}
	c, err := parseConfig(&cfg)
	if err != nil {
		return nil, err
	}
	s, err := d.session(&cfg, c, firstInstance(&cfg))
	if err != nil {
		return nil, err
	}
	if err := validate(&cfg, c, s); err != nil {
		s.Drop()
		return nil, err
	}
	return &model{driver: d, cfg: cfg, config: c, shared: s, plan: newPlan(&cfg, s)}, nil
}

func firstInstance(cfg *backend.Config) backend.InstanceConfig {
	if len(cfg.Instances) > 0 {
		return cfg.Instances[0]
	}
	return backend.InstanceConfig{Name: cfg.Name + "_0", Kind: "KIND_CPU"}
}

// session returns the one that completed the configuration, if it fits, or a
// new one.
func (d *driver) session(cfg *backend.Config, c *modelConfig, in backend.InstanceConfig) (*session, error) {
	e, err := d.environment(cfg)
	if err != nil {
		return nil, err
	}
	o, err := d.readOptions(cfg, c, in)
	if err != nil {
		return nil, err
	}
	if s, ok := d.ready.Take(cfg); ok {
		if path, err := modelFile(cfg); err == nil && s.env == e && s.options == o.key() && s.stamp == modelfile.Stamp(path) {
			return s, nil
		}
		s.Drop()
	}
	return e.newSession(cfg, o)
}

// Allocator implements backend.Model: ordinary memory is as good as any.
func (m *model) Allocator() tensor.Allocator { return nil }

// Ready implements backend.Model.
func (m *model) Ready() error { return nil }

// NewInstance implements backend.Model.
func (m *model) NewInstance(_ context.Context, in backend.InstanceConfig) (backend.Instance, error) {
	o, err := m.driver.readOptions(&m.cfg, m.config, in)
	if err != nil {
		return nil, err
	}
	s, err := m.sessionFor(o, in)
	if err != nil {
		return nil, err
	}
	return newInstance(m, s, o)
}

// sessionFor returns a session with a use of its own.
func (m *model) sessionFor(o *sessionOptions, in backend.InstanceConfig) (*session, error) {
	m.mu.Lock()
	fits := m.shared.options == o.key() && (!o.perInstance || !m.taken)
	if fits {
		m.taken = true
		m.shared.uses.Add(1)
	}
	m.mu.Unlock()
	if fits {
		return m.shared, nil
	}
	return m.driver.session(&m.cfg, m.config, in)
}

// Close implements backend.Model.
func (m *model) Close() error {
	m.closing.Do(m.shared.Drop)
	return nil
}
