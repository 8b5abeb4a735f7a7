package scheduler

import (
	"testing"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func requestOf(inputs ...tensor.Tensor) *infer.Request {
	r := infer.New(nil, nil)
	r.Inputs = inputs
	return r
}

func of(name string, data string, shape ...int64) tensor.Tensor {
	return tensor.Tensor{Name: name, Shape: shape, Data: []byte(data)}
}

func TestCompatibility(t *testing.T) {
	fixed := modelconfig.Input{Name: "F", Dims: tensor.Shape{2}}
	variable := modelconfig.Input{Name: "V", Dims: tensor.Shape{-1}}
	ragged := modelconfig.Input{Name: "R", Dims: tensor.Shape{-1}, AllowRagged: true}
	shape := modelconfig.Input{Name: "S", Dims: tensor.Shape{1}, ShapeTensor: true}
	optional := modelconfig.Input{Name: "O", Dims: tensor.Shape{1}, Optional: true}
	free := modelconfig.Input{Name: "O", Dims: tensor.Shape{-1}, Optional: true}
	for _, test := range []struct {
		name   string
		inputs []modelconfig.Input
		a, b   *infer.Request
		want   bool
	}{
		{"fixed shapes are not compared", []modelconfig.Input{fixed}, requestOf(of("F", "", 1, 2)), requestOf(of("F", "", 3, 7)), true},
		{"variable, same", []modelconfig.Input{variable}, requestOf(of("V", "", 1, 2)), requestOf(of("V", "", 3, 2)), true},
		{"variable, different", []modelconfig.Input{variable}, requestOf(of("V", "", 1, 2)), requestOf(of("V", "", 1, 3)), false},
		{"ragged", []modelconfig.Input{ragged}, requestOf(of("R", "", 1, 2)), requestOf(of("R", "", 1, 3)), true},
		{"shape tensor, same", []modelconfig.Input{shape}, requestOf(of("S", "ab", 1)), requestOf(of("S", "ab", 1)), true},
		{"shape tensor, other content", []modelconfig.Input{shape}, requestOf(of("S", "ab", 1)), requestOf(of("S", "ac", 1)), false},
		{"shape tensor, other shape", []modelconfig.Input{shape}, requestOf(of("S", "ab", 1)), requestOf(of("S", "ab", 2)), false},
		{"both without", []modelconfig.Input{fixed, optional}, requestOf(of("F", "", 1, 2)), requestOf(of("F", "", 1, 2)), true},
		{
			"one without",
			[]modelconfig.Input{fixed, optional},
			requestOf(of("F", "", 1, 2)), requestOf(of("F", "", 1, 2), of("O", "", 1, 1)),
			false,
		},
		{
			"another order",
			[]modelconfig.Input{fixed, optional},
			requestOf(of("O", "", 1, 1), of("F", "", 1, 2)),
			requestOf(of("F", "", 1, 2), of("O", "", 1, 1)), true,
		},
		{"optional and variable", []modelconfig.Input{fixed, free}, requestOf(of("F", "", 1, 2)), requestOf(of("F", "", 1, 2)), true},
		{"optional, variable, different", []modelconfig.Input{free}, requestOf(of("O", "", 1, 2)), requestOf(of("O", "", 1, 3)), false},
	} {
		k := NewCompatibility(&modelconfig.Config{MaxBatchSize: 8, Inputs: test.inputs})
		if got := k.Same(test.a, test.b); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if NewCompatibility(&modelconfig.Config{Inputs: []modelconfig.Input{fixed, ragged}}) != nil {
		t.Error("rules where none are needed")
	}
}
