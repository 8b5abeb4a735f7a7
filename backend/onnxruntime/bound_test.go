package onnxruntime

import (
	"fmt"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// TestBoundTensors: tensors of many sizes through one instance, small ones in
// memory that grows and whose values are replaced, large ones in memory of their
// own, each with its own answer.
func TestBoundTensors(t *testing.T) {
	d, _ := open(t, nil)
	for _, model := range []struct {
		name string
		out  backend.IO
		want func(n int) []float32
	}{
		{"through", port("NEG", tensor.FP32, -1), func(n int) []float32 { return counting(n, -1) }},
		{"through", port("IN", tensor.FP32, -1), func(n int) []float32 { return counting(n, 1) }}, // ONNX Runtime hands it through
	} {
		in := start(t, d, configOf(t, model.name, 0, port("IN", tensor.FP32, -1), port("NEG", tensor.FP32, -1), port("IN", tensor.FP32, -1)))
		for range 2 {
			for _, n := range []int{1, 2, 3, 16, 17, 100, 5, 6, 7, 8, 9, 10, 11, 12, boundBytes / 4, boundBytes/4 + 1, 3000, 1, 2} {
				got, err := ask(in, 0, []string{model.out.Name}, floats("IN", tensor.Shape{int64(n)}, counting(n, 1)...))
				if want := fmt.Sprint(model.out.Name, " ", tensor.Shape{int64(n)}, " ", model.want(n)); err != nil || got != want {
					t.Fatalf("%d elements: got %.80s, %v, want %.80s", n, got, err, want)
				}
			}
		}
		for _, b := range []bound{in.boundInputs[0], in.boundOutputs[0]} {
			if len(b.values) > boundShapes || len(b.memory) > boundBytes {
				t.Errorf("%d values over %d bytes are kept", len(b.values), len(b.memory))
			}
		}
	}
}

func counting(n int, sign float32) []float32 {
	all := make([]float32, n)
	for i := range all {
		all[i] = sign * float32(i+1)
	}
	return all
}

// TestBoundTensorThatIsTooShort: a value over the same shape is not used for
// data that does not fill it.
func TestBoundTensorThatIsTooShort(t *testing.T) {
	d, _ := open(t, nil)
	in := start(t, d, configOf(t, "through", 0, port("IN", tensor.FP32, -1), port("NEG", tensor.FP32, -1)))
	whole := floats("IN", tensor.Shape{3}, 1, 2, 3)
	if got, err := ask(in, 0, []string{"NEG"}, whole); got != "NEG [3] [-1 -2 -3]" {
		t.Fatal(got, err)
	}
	short := whole
	short.Data = short.Data[:8]
	if got, err := ask(in, 0, []string{"NEG"}, short); err == nil {
		t.Errorf("answered %s", got)
	}
	if got, err := ask(in, 0, []string{"NEG"}, whole); got != "NEG [3] [-1 -2 -3]" {
		t.Error(got, err)
	}
}
