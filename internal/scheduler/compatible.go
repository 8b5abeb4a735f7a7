package scheduler

import (
	"bytes"
	"slices"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// Compatibility tells which requests of a model may share a batch. Only inputs
// are compared: not parameters, outputs, priority or correlation ID.
type Compatibility struct {
	// shapes are the inputs with a dimension of any size, which must agree outside
	// of the batch dimension; contents are shape tensors, which must agree in all.
	shapes, contents []string
	optional         bool // the same inputs must be present
	batching         bool
}

// NewCompatibility returns the rules for a configuration, nil when any two
// requests may share a batch.
func NewCompatibility(c *modelconfig.Config) *Compatibility {
	k := &Compatibility{batching: c.MaxBatchSize > 0}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		switch {
		case in.ShapeTensor:
			k.contents = append(k.contents, in.Name)
		case in.Dims.HasWildcard() && !in.AllowRagged:
			k.shapes = append(k.shapes, in.Name)
		}
		k.optional = k.optional || in.Optional
	}
	if len(k.shapes)+len(k.contents) == 0 && !k.optional {
		return nil
	}
	return k
}

// Same reports whether two requests may share a batch.
func (k *Compatibility) Same(a, b *infer.Request) bool {
	if k == nil {
		return true
	}
	if k.optional && !sameInputs(a, b) {
		return false
	}
	for _, name := range k.shapes {
		s, t := a.Input(name), b.Input(name)
		if s == nil || t == nil {
			if s != t {
				return false
			}
			continue
		}
		if !slices.Equal(k.dims(s), k.dims(t)) {
			return false
		}
	}
	for _, name := range k.contents {
		s, t := a.Input(name), b.Input(name)
		if s == nil || t == nil || !slices.Equal(s.Shape, t.Shape) || !bytes.Equal(s.Data, t.Data) {
			return false
		}
	}
	return true
}

// dims returns the shape without the batch dimension.
func (k *Compatibility) dims(t *tensor.Tensor) tensor.Shape {
	if k.batching && len(t.Shape) > 0 {
		return t.Shape[1:]
	}
	return t.Shape
}

func sameInputs(a, b *infer.Request) bool {
	if len(a.Inputs) != len(b.Inputs) {
		return false
	}
	for i := range a.Inputs {
		if b.Inputs[i].Name != a.Inputs[i].Name && b.Input(a.Inputs[i].Name) == nil {
			return false
		}
	}
	return true
}
