package fil

import (
	"context"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/tensor"
)

// model is one loaded version.
type model struct {
	driver  *driver
	cfg     backend.Config
	options *options
	forest  *forest
	threads int // goroutines of one instance
	closing sync.Once
}

// Load implements backend.Backend.
func (d *driver) Load(ctx context.Context, cfg backend.Config) (backend.Model, error) {
	if cfg.Decoupled {
		return nil, backend.Errorf(backend.InvalidArg,
			"model '%s' is decoupled, which the fil backend does not support: a forest gives one response", cfg.Name)
	}
	o, err := readOptions(&cfg)
	if err != nil {
		return nil, err
	}
	f, err := d.load(ctx, &cfg, o)
	if err != nil {
		return nil, err
	}
	if err := validate(&cfg, o, f); err != nil {
		f.Drop()
		return nil, err
	}
	d.report(&cfg)
	m := &model{driver: d, cfg: cfg, options: o, forest: f, threads: o.threads}
	if m.threads == 0 {
		m.threads = max(1, processors.Count()/max(1, len(cfg.Instances)))
	}
	return m, nil
}

// report says once a load what of a configuration has no meaning here.
func (d *driver) report(cfg *backend.Config) {
	var names []string
	for _, name := range withoutMeaning {
		if _, ok := cfg.Parameters[name]; ok {
			names = append(names, name)
		}
	}
	log := d.host.Logger()
	if len(names) > 0 {
		log.Info("parameters without a meaning on the CPU are ignored", "model", cfg.Name, "parameters", names)
	}
	if slices.ContainsFunc(cfg.Instances, func(in backend.InstanceConfig) bool { return in.Kind == "KIND_GPU" }) {
		log.Warn("forests run on the CPU, also in instances of KIND_GPU", "model", cfg.Name)
	}
}

// Allocator implements backend.Model: ordinary memory is as good as any.
func (m *model) Allocator() tensor.Allocator { return nil }

// Ready implements backend.Model.
func (m *model) Ready() error { return nil }

// NewInstance implements backend.Model.
func (m *model) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	m.forest.uses.Add(1)
	return newInstance(m), nil
}

// Close implements backend.Model.
func (m *model) Close() error {
	m.closing.Do(m.forest.Drop)
	return nil
}
