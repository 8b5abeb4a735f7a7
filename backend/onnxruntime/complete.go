package onnxruntime

import (
	"context"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
)

// Complete implements backend.Backend: inputs, outputs, the largest batch and
// the default batcher, by Triton's rules. The session that is made for it also
// serves the version.
func (d *driver) Complete(_ context.Context, cfg backend.Config) ([]byte, error) {
	done, err := completion.Read(&cfg)
	if done == nil || err != nil {
		return nil, err
	}
	c, err := parseConfig(&cfg)
	if err != nil {
		return nil, err
	}
	s, err := d.session(&cfg, c, firstInstance(&cfg))
	if err != nil {
		return nil, err
	}
	inputs, outputs := s.inputs, s.outputs
	d.ready.Keep(&cfg, s)
	batch, err := d.completeBatch(&cfg, c, slices.Concat(inputs, outputs))
	if err != nil {
		return nil, err
	}
	list := func(tensors []tensorInfo) func() ([]completion.IO, error) {
		return func() ([]completion.IO, error) { return completeIO(&cfg, tensors, batch > 0) }
	}
	return done.Complete(batch, list(inputs), list(outputs))
}

// completeBatch says the largest batch: that of the configuration, else the
// default when the first dimension of everything is open.
func (d *driver) completeBatch(cfg *backend.Config, c *modelConfig, all []tensorInfo) (int, error) {
	for i := range all {
		t := &all[i]
		if len(t.shape) > 0 && t.shape[0] == -1 {
			continue
		}
		if c.MaxBatchSize == 0 {
			return 0, nil
		}
		return 0, backend.Errorf(backend.InvalidArg, "autofill failed for model '%s': model does not support batching while non-zero "+
			"max_batch_size is specified ('%s' has shape %s; write max_batch_size: 0, or export the model with a dynamic first dimension)",
			cfg.Name, t.name, t.shape)
	}
	if c.MaxBatchSize > 0 {
		return c.MaxBatchSize, nil
	}
	if d.settings.maxBatchSize > 0 {
		d.host.Logger().Info("the model can batch and its configuration does not say how much", "model", cfg.Name, "max_batch_size",
			d.settings.maxBatchSize)
	}
	return d.settings.maxBatchSize, nil
}

func completeIO(cfg *backend.Config, list []tensorInfo, batching bool) ([]completion.IO, error) {
	all := []completion.IO{}
	for i := range list {
		t := &list[i]
		if t.kind != kindTensor {
			return nil, backend.Errorf(backend.Unsupported, "Unsupported ONNX Type 'ONNX_TYPE_%s' for I/O '%s', expected 'ONNX_TYPE_TENSOR'. "+
				"(model '%s'; name the tensors to serve as input and output in its configuration%s)",
				onnxType(t.kind), t.name, cfg.Name, prefixed("; ", kindHint(t.kind)))
		}
		all = append(all, completion.NewIO(t.name, t.datatype, t.shape, batching))
	}
	return all, nil
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
