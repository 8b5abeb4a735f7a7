package client

import (
	"fmt"

	"github.com/nesoserve/neso/tensor"
)

// Tensor is a tensor of Go's values in row-major order: Tensor[float32] of FP32,
// Tensor[string] of BYTES, Tensor[tensor.Float16] of FP16, and so on.
type Tensor[T tensor.Element] struct {
	Name string
	// Shape includes the batch dimension of a model that batches.
	Shape  tensor.Shape
	Values []T
}

// Input makes an input of a request. Numbers are not copied: the values must not be
// changed as long as the request goes on. A shape that the values do not fill is an
// error of the call that the request is for.
func (t Tensor[T]) Input() Input {
	made, err := tensor.New(t.Name, t.Shape, t.Values)
	in := Input{Name: t.Name, Datatype: made.Datatype, Shape: t.Shape, Data: made.Data}
	if err != nil {
		in.fault = fmt.Errorf("input: %w", err)
	}
	return in
}

// Read returns an output of a response. T must be the type of the output's datatype;
// float32 also reads FP16 and BF16, converted. The values are those in the memory of
// the response where that can be, else copies: numbers that do not lie as Go wants
// them, texts, booleans.
func Read[T tensor.Element](r *Response, output string) (Tensor[T], error) {
	o := r.Output(output)
	if o == nil {
		return Tensor[T]{}, fmt.Errorf("the response has no output %q", output)
	}
	if o.Region != nil {
		return Tensor[T]{}, fmt.Errorf("output %q is in the shared memory %q", output, o.Region.Name)
	}
	values, err := tensor.Values[T](&tensor.Tensor{Name: o.Name, Datatype: o.Datatype, Shape: o.Shape, Data: o.Data})
	return Tensor[T]{Name: o.Name, Shape: o.Shape, Values: values}, err
}
