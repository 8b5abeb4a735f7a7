package onnxruntime

import (
	"context"
	"encoding/json"

	"github.com/nesoserve/neso/backend"
)

// Complete implements backend.Backend: inputs, outputs, the largest batch and
// the default batcher, by Triton's rules. The session that is made for it also
// serves the version.
func (d *driver) Complete(_ context.Context, cfg backend.Config) ([]byte, error) {
	c, err := parseConfig(&cfg)
	if err != nil {
		return nil, err
	}
	if len(c.Input)+len(c.BatchInput) > 0 && len(c.Output) > 0 {
		return nil, nil // nothing is left to say
	}
	s, err := d.session(&cfg, c, firstInstance(&cfg))
	if err != nil {
		return nil, err
	}
	d.keepReady(readyKey(&cfg), s)
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(cfg.JSON, &all); err != nil {
		return nil, backend.Errorf(backend.Internal, "configuration of model '%s': %v", cfg.Name, err)
	}
	batch, err := d.completeBatch(&cfg, c, s)
	if err != nil {
		return nil, err
	}
	set := func(name string, v any) {
		text, err := json.Marshal(v)
		if err == nil {
			all[name] = text
		}
	}
	set("max_batch_size", batch)
	if batch > 1 && c.SequenceBatching == nil && c.DynamicBatching == nil && c.EnsembleScheduling == nil {
		set("dynamic_batching", struct{}{})
	}
	if len(c.Input)+len(c.BatchInput) == 0 {
		list, err := completeIO(&cfg, s.inputs, batch > 0)
		if err != nil {
			return nil, err
		}
		set("input", list)
	}
	if len(c.Output) == 0 {
		list, err := completeIO(&cfg, s.outputs, batch > 0)
		if err != nil {
			return nil, err
		}
		set("output", list)
	}
	return json.Marshal(all)
}

// completeBatch says the largest batch: that of the configuration, else the
// default when the first dimension of everything is open.
func (d *driver) completeBatch(cfg *backend.Config, c *modelConfig, s *session) (int, error) {
	for _, list := range [][]tensorInfo{s.inputs, s.outputs} {
		for i := range list {
			t := &list[i]
			if len(t.shape) > 0 && t.shape[0] == -1 {
				continue
			}
			if c.MaxBatchSize == 0 {
				return 0, nil
			}
			return 0, backend.Errorf(backend.InvalidArg, "autofill failed for model '%s': model does not support batching while non-zero max_batch_size is specified ('%s' has shape %s; write max_batch_size: 0, or export the model with a dynamic first dimension)",
				cfg.Name, t.name, t.shape)
		}
	}
	if c.MaxBatchSize > 0 {
		return c.MaxBatchSize, nil
	}
	if d.settings.maxBatchSize > 0 {
		d.host.Logger().Info("the model can batch and its configuration does not say how much", "model", cfg.Name, "max_batch_size", d.settings.maxBatchSize)
	}
	return d.settings.maxBatchSize, nil
}

// completedIO is one input or output of the JSON form.
type completedIO struct {
	Name     string   `json:"name"`
	DataType string   `json:"data_type"`
	Dims     []int64  `json:"dims"`
	Reshape  *reshape `json:"reshape,omitempty"`
}

type reshape struct {
	Shape []int64 `json:"shape"`
}

func completeIO(cfg *backend.Config, list []tensorInfo, batching bool) ([]completedIO, error) {
	all := []completedIO{}
	for i := range list {
		t := &list[i]
		if t.kind != kindTensor {
			return nil, backend.Errorf(backend.Unsupported, "Unsupported ONNX Type 'ONNX_TYPE_%s' for I/O '%s', expected 'ONNX_TYPE_TENSOR'. (model '%s'; name the tensors to serve as input and output in its configuration%s)",
				onnxType(t.kind), t.name, cfg.Name, prefixed("; ", kindHint(t.kind)))
		}
		io := completedIO{Name: t.name, DataType: t.datatype.ConfigName(), Dims: t.shape}
		if batching {
			io.Dims = t.shape[1:]
		}
		if len(io.Dims) == 0 {
			io.Dims = []int64{1}
			if batching {
				io.Reshape = &reshape{Shape: []int64{}}
			}
		}
		all = append(all, io)
	}
	return all, nil
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
