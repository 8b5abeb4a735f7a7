package fil

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/tensor"
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
	c, err := completion.Read(&cfg)
	if c == nil || err != nil {
		return nil, err
	}
	o, err := readOptions(&cfg)
	if err != nil {
		return nil, err
	}
	f, err := d.load(ctx, &cfg, o)
	if err != nil {
		return nil, err
	}
	features, answer := int64(f.features), f.dims(o)
	d.ready.Keep(&cfg, f)
	batch := c.MaxBatchSize
	if batch == 0 {
		batch = d.settings.maxBatchSize
	}
	rows := func(name string, dims ...int64) func() ([]completion.IO, error) {
		return func() ([]completion.IO, error) {
			return []completion.IO{completion.NewIO(name, tensor.FP32, append(tensor.Shape{-1}, dims...), batch > 0)}, nil
		}
	}
	return c.Complete(batch, rows(inputName, features), rows(outputName, answer...))
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
