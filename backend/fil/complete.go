package fil

import (
	"context"
	"encoding/json"

	"github.com/nesoserve/neso/backend"
)

// Names of the tensors, Triton's.
const (
	inputName  = "input__0"
	outputName = "output__0"
	shapName   = "treeshap_output"
)

// Complete implements backend.Backend: input, output, the largest batch and the
// default batcher. The forest that is read for it also serves the version.
func (d *driver) Complete(ctx context.Context, cfg backend.Config) ([]byte, error) {
	c := completion{}
	all := map[string]json.RawMessage{}
	for _, into := range []any{&c, &all} {
		if err := json.Unmarshal(cfg.JSON, into); err != nil {
			return nil, backend.Errorf(backend.Internal, "configuration of model '%s': %v", cfg.Name, err)
		}
	}
	if len(c.Input) > 0 && len(c.Output) > 0 {
		return nil, nil // nothing is left to say
	}
	o, err := readOptions(&cfg)
	if err != nil {
		return nil, err
	}
	f, err := d.load(ctx, &cfg, o)
	if err != nil {
		return nil, err
	}
	d.keepReady(readyKey(&cfg), f)
	set := func(name string, v any) {
		if text, err := json.Marshal(v); err == nil {
			all[name] = text
		}
	}
	batch := c.MaxBatchSize
	if batch == 0 {
		batch = d.settings.maxBatchSize
		set("max_batch_size", batch)
	}
	if batch > 1 && c.SequenceBatching == nil && c.DynamicBatching == nil && c.EnsembleScheduling == nil {
		set("dynamic_batching", struct{}{})
	}
	rows := func(dims ...int64) []int64 {
		if batch > 0 {
			return dims
		}
		return append([]int64{-1}, dims...)
	}
	type io struct {
		Name     string  `json:"name"`
		DataType string  `json:"data_type"`
		Dims     []int64 `json:"dims"`
	}
	if len(c.Input) == 0 {
		set("input", []io{{inputName, "TYPE_FP32", rows(int64(f.features))}})
	}
	if len(c.Output) == 0 {
		set("output", []io{{outputName, "TYPE_FP32", rows(f.dims(o)...)}})
	}
	return json.Marshal(all)
}

// dims is the shape of a row's answer.
func (f *forest) dims(o *options) []int64 {
	switch {
	case o.classes():
		return []int64{int64(f.targets)}
	case o.classifier && f.targets == 1 && f.width == 1:
		return []int64{2} // the probabilities of both classes
	case f.targets == 1:
		return []int64{int64(f.width)}
	case f.width == 1:
		return []int64{int64(f.targets)}
	}
	return []int64{int64(f.targets), int64(f.width)}
}
