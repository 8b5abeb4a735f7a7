package completion

import (
	"strings"

	"github.com/nesoserve/neso/tensor"
)

// IO is an input or output in the JSON form of a configuration.
type IO struct {
	Name     string   `json:"name"`
	DataType string   `json:"data_type"`
	Dims     []int64  `json:"dims"`
	Reshape  *Reshape `json:"reshape,omitempty"`
	Optional bool     `json:"optional,omitempty"`
}

// Reshape is the shape that the model gets in place of the dims.
type Reshape struct {
	Shape []int64 `json:"shape"`
}

// NewIO describes a tensor of a model. With batching the first dimension is the
// batch's: it must be there, and is left out. A configuration cannot say "no
// dimensions"; it says one dimension of length 1, with an empty reshape when
// batching.
func NewIO(name string, d tensor.Datatype, shape tensor.Shape, batching bool) IO {
	io := IO{Name: name, DataType: d.ConfigName(), Dims: shape}
	if batching {
		io.Dims = shape[1:]
	}
	if len(io.Dims) == 0 {
		io.Dims = []int64{1}
		if batching {
			io.Reshape = &Reshape{Shape: []int64{}}
		}
	}
	return io
}

// Write says what to write into a configuration for a shape of the model, whose
// first dimension is that of the batch with batching.
func Write(shape tensor.Shape, batching bool) string {
	if batching && len(shape) > 0 {
		shape = shape[1:]
	}
	switch {
	case len(shape) > 0:
		return "dims: " + Dims(shape)
	case batching:
		return "dims: [ 1 ] and reshape { shape: [ ] }"
	default:
		return "dims: [ 1 ]"
	}
}

// Dims prints a shape as configuration files have it: "[ 3, -1 ]".
func Dims(s tensor.Shape) string {
	return "[ " + strings.ReplaceAll(strings.Trim(s.String(), "[]"), ",", ", ") + " ]"
}
