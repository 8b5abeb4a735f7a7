package openvino

import (
	"context"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// model is one loaded version.
type model struct {
	driver  *driver
	cfg     backend.Config
	options *options
	network *network
	closing sync.Once
}

// Load implements backend.Backend. The model is compiled here, so that a version
// with a fault fails before its instances are made.
func (d *driver) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	if cfg.Decoupled {
		return nil, backend.Errorf(backend.InvalidArg,
			"model '%s' is decoupled, which the openvino backend does not support: a model gives one response", cfg.Name)
	}
	o, err := readOptions(&cfg)
	if err != nil {
		return nil, err
	}
	r, err := d.read(&cfg, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	path, err := modelFile(&cfg)
	if err != nil {
		return nil, err
	}
	if o.reshape { // then the configuration is right, if the model can take it
		if err := r.fit(&cfg, o, path); err != nil {
			return nil, err
		}
	}
	if err := validate(&cfg, r); err != nil {
		return nil, err
	}
	if !o.reshape {
		if err := r.fit(&cfg, o, path); err != nil {
			return nil, err
		}
	}
	n, err := r.compile(&cfg, o, path)
	if err != nil {
		return nil, err
	}
	return &model{driver: d, cfg: cfg, options: o, network: n}, nil
}

// Allocator implements backend.Model: ordinary memory is as good as any.
func (m *model) Allocator() tensor.Allocator { return nil }

// Ready implements backend.Model.
func (m *model) Ready() error { return nil }

// NewInstance implements backend.Model.
func (m *model) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	return newInstance(m)
}

// Close implements backend.Model.
func (m *model) Close() error {
	m.closing.Do(m.network.drop)
	return nil
}
