package model

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

func in(name string, d tensor.Datatype, dims ...int64) modelconfig.Input {
	return modelconfig.Input{Name: name, Datatype: d, Dims: dims}
}

func tensorOf(name string, d tensor.Datatype, size int, shape ...int64) tensor.Tensor {
	return tensor.Tensor{Name: name, Datatype: d, Shape: shape, Data: make([]byte, size)}
}

func elements(texts ...string) (data []byte) {
	for _, s := range texts {
		data = tensor.AppendElement(data, s)
	}
	return data
}

func TestCheck(t *testing.T) {
	addsub := modelconfig.Config{
		Name: "m", MaxBatchSize: 8,
		Inputs: []modelconfig.Input{in("A", tensor.FP32, 16), in("B", tensor.FP32, -1)},
		Outputs: []modelconfig.Output{
			{Name: "X", Datatype: tensor.FP32, Dims: tensor.Shape{16}},
			{Name: "Y", Datatype: tensor.FP32, Dims: tensor.Shape{16}},
		},
	}
	plain := modelconfig.Config{Name: "m", Inputs: []modelconfig.Input{in("A", tensor.Int32, -1, 2)}}
	optional := modelconfig.Config{Name: "m", Inputs: []modelconfig.Input{
		in("A", tensor.Int8, 1),
		{Name: "B", Datatype: tensor.Int8, Dims: tensor.Shape{1}, Optional: true},
		{Name: "C", Datatype: tensor.Int8, Dims: tensor.Shape{1}, Optional: true},
	}}
	fixed := modelconfig.Config{Name: "m", Inputs: []modelconfig.Input{in("A", tensor.Int32, 4, 2)}}
	texts := modelconfig.Config{Name: "m", Inputs: []modelconfig.Input{in("S", tensor.Bytes, -1)}}
	a, b := tensorOf("A", tensor.FP32, 64, 1, 16), tensorOf("B", tensor.FP32, 4, 1, 1)
	text := func(n int64, data []byte) []tensor.Tensor {
		return []tensor.Tensor{{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{n}, Data: data}}
	}
	const id = "[request id: <id_unknown>] "
	for _, test := range []struct {
		name      string
		config    modelconfig.Config
		inputs    []tensor.Tensor
		requested []string
		want      string
	}{
		{"good", addsub, []tensor.Tensor{a, b}, []string{"Y"}, ""},
		{"another order", addsub, []tensor.Tensor{b, a}, nil, ""},
		{"unknown output", addsub, nil, []string{"QQ"}, "unexpected inference output 'QQ' for model 'm'"},
		{"output twice", addsub, []tensor.Tensor{a, b}, []string{"Y", "Y"}, id + "output 'Y' already exists in request"},
		{"none", addsub, nil, nil, id + "expected 2 inputs but got 0 inputs for model 'm'. Got input(s) [], but missing required input(s) " +
			"['A','B']. Please provide all required input(s)."},
		{"missing", addsub, []tensor.Tensor{a}, nil, id + "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['A'], but missing " +
			"required input(s) ['B']. Please provide all required input(s)."},
		{"too many", addsub, []tensor.Tensor{a, b, tensorOf("C", tensor.FP32, 4, 1, 1)}, nil, id +
			"expected 2 inputs but got 3 inputs for model 'm'. Got input(s) ['A','B','C'], but missing required input(s) []. Please provide all " +
			"required input(s)."},
		{"duplicate", addsub, []tensor.Tensor{a, a}, nil, id + "input 'A' already exists in request"},
		{"unknown input", addsub, []tensor.Tensor{a, tensorOf("ZZ", tensor.FP32, 4, 1, 1)}, nil, "unexpected inference input 'ZZ' for model 'm'"},
		{"scalar", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 4), b}, nil, id +
			"input 'A' has no shape but model requires batch dimension for 'm'"},
		{"batch differs", addsub, []tensor.Tensor{a, tensorOf("B", tensor.FP32, 8, 2, 1)}, nil, id +
			"input 'A' batch size does not match other inputs for 'm'"},
		{"two of wrong shape", addsub, []tensor.Tensor{tensorOf("B", tensor.FP32, 4, 1), tensorOf("A", tensor.FP32, 60, 1, 15)}, nil, id +
			"unexpected shape for input 'A' for model 'm'. Expected [-1,16], got [1,15]. " + batchNote},
		{"shape and datatype", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 60, 1, 15), tensorOf("B", tensor.Int32, 4, 1, 1)}, nil, id +
			"inference input 'B' data-type is 'INT32', but model 'm' expects 'FP32'"},
		{"datatype and shape", addsub, []tensor.Tensor{tensorOf("B", tensor.Int32, 4, 1, 1), tensorOf("A", tensor.FP32, 60, 1, 15)}, nil, id +
			"unexpected shape for input 'A' for model 'm'. Expected [-1,16], got [1,15]. " + batchNote},
		{"two scalars", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 4), tensorOf("B", tensor.FP32, 4)}, nil, id +
			"input 'B' has no shape but model requires batch dimension for 'm'"},
		{"batch too big", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 9*64, 9, 16), tensorOf("B", tensor.FP32, 36, 9, 1)}, nil, id +
			"inference request batch-size must be <= 8 for 'm'"},
		{"batch 0", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 0, 0, 16), tensorOf("B", tensor.FP32, 0, 0, 1)}, nil, id +
			"input byte size mismatch for input 'B' for model 'm'. Expected 4, got 0: its batch dimension is 0"},
		{"batch negative", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 0, -1, 16), b}, nil, id +
			"All input dimensions should be specified for input 'A' for model 'm', got [-1,16]"},
		{"datatype", addsub, []tensor.Tensor{tensorOf("A", tensor.Int32, 64, 1, 16), b}, nil, id +
			"inference input 'A' data-type is 'INT32', but model 'm' expects 'FP32'"},
		{"no datatype", addsub, []tensor.Tensor{tensorOf("A", tensor.Invalid, 64, 1, 16), b}, nil, id +
			"inference input 'A' data-type is '<invalid>', but model 'm' expects 'FP32'"},
		{"shape", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 60, 1, 15), b}, nil, id +
			"unexpected shape for input 'A' for model 'm'. Expected [-1,16], got [1,15]. " + batchNote},
		{"rank", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 4, 1), b}, nil, id +
			"unexpected shape for input 'A' for model 'm'. Expected [-1,16], got [1]. " + batchNote},
		{"size", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 4, 1, 16), b}, nil, id +
			"input byte size mismatch for input 'A' for model 'm'. Expected 64, got 4"},
		{"no batching", plain, []tensor.Tensor{tensorOf("A", tensor.Int32, 24, 3, 2)}, nil, ""},
		{"empty", plain, []tensor.Tensor{tensorOf("A", tensor.Int32, 0, 0, 2)}, nil, ""},
		{"shape without batching", plain, []tensor.Tensor{tensorOf("A", tensor.Int32, 12, 3)}, nil, id +
			"unexpected shape for input 'A' for model 'm'. Expected [-1,2], got [3]. "},
		{"wildcard", plain, []tensor.Tensor{tensorOf("A", tensor.Int32, 8, -1, 2)}, nil, id +
			"All input dimensions should be specified for input 'A' for model 'm', got [-1,2]"},
		{"wildcard for a fixed dimension", fixed, []tensor.Tensor{tensorOf("A", tensor.Int32, 8, 4, -1)}, nil, id +
			"All input dimensions should be specified for input 'A' for model 'm', got [4,-1]"},
		{"wildcard behind a wrong dimension", fixed, []tensor.Tensor{tensorOf("A", tensor.Int32, 8, 3, -1)}, nil, id +
			"unexpected shape for input 'A' for model 'm'. Expected [4,2], got [3,-1]. "},
		{"wildcard before a wrong dimension", plain, []tensor.Tensor{tensorOf("A", tensor.Int32, 8, -1, 5)}, nil, id +
			"All input dimensions should be specified for input 'A' for model 'm', got [-1,5]"},
		{"wildcard in a wrong rank", fixed, []tensor.Tensor{tensorOf("A", tensor.Int32, 8, -1)}, nil, id +
			"unexpected shape for input 'A' for model 'm'. Expected [4,2], got [-1]. "},
		{"negative", fixed, []tensor.Tensor{tensorOf("A", tensor.Int32, 8, 4, -2)}, nil, id +
			"unexpected shape for input 'A' for model 'm'. Expected [4,2], got [4,-2]. "},
		{"wildcard in a batch", addsub, []tensor.Tensor{tensorOf("A", tensor.FP32, 64, 1, -1), b}, nil, id +
			"All input dimensions should be specified for input 'A' for model 'm', got [1,-1]"},
		{"too many elements", plain, []tensor.Tensor{tensorOf("A", tensor.Int32, 8, 1<<62+1, 2)}, nil, id +
			"invalid shape for input 'A': shape [4611686018427387905,2] causes total element count to exceed maximum size of 9223372036854775807"},
		{"too many bytes", plain, []tensor.Tensor{tensorOf("A", tensor.Int32, 8, 1<<60, 2)}, nil, id +
			"byte size overflow for input 'A': element count (2305843009213693952) * data type size (4) exceeds maximum allowed size " +
			"(9223372036854775807)"},
		{"optional left out", optional, []tensor.Tensor{tensorOf("A", tensor.Int8, 1, 1), tensorOf("C", tensor.Int8, 1, 1)}, nil, ""},
		{"required left out", optional, nil, nil, id + "expected number of inputs between 1 and 3 but got 0 inputs for model 'm'. Got input(s) " +
			"[], but missing required input(s) ['A']. Please provide all required input(s)."},
		{"optional in place of required", optional, []tensor.Tensor{tensorOf("C", tensor.Int8, 1, 1)}, nil, id +
			"expected number of inputs between 1 and 3 but got 1 inputs for model 'm'. Got input(s) ['C'], but missing required input(s) ['A']. " +
			"Please provide all required input(s)."},
		{"texts", texts, text(2, elements("a", "")), nil, ""},
		{"no texts", texts, text(0, nil), nil, ""},
		{"texts missing", texts, text(3, elements("a", "b")), nil, id +
			"expected 3 string elements for inference input 'S' for model 'm', got 2"},
		{"texts left", texts, text(2, elements("a", "b", "c")), nil, id +
			"unexpected number of string elements 3 for inference input 'S' for model 'm', expecting 2"},
		{"length cut off", texts, text(2, append(elements("a"), 1, 0)), nil, id + "incomplete string length indicator for inference input 'S' " +
			"for model 'm', expecting 4 bytes but only 2 bytes available. Please make sure the string length indicator is in one buffer."},
		{"text cut off", texts, text(1, []byte{9, 0, 0, 0, 'a'}), nil, id +
			"incomplete string data for inference input 'S' for model 'm', expecting string of length 9 but only 1 bytes available."},
		{"huge length", texts, text(1, []byte{0xff, 0xff, 0xff, 0xff}), nil, id +
			"incomplete string data for inference input 'S' for model 'm', expecting string of length 4294967295 but only 0 bytes available."},
	} {
		t.Run(test.name, func(t *testing.T) {
			var o io
			o.init(&test.config)
			r := infer.New(nil, nil)
			r.Inputs, r.Requested = test.inputs, test.requested
			err := o.check(r)
			switch {
			case test.want == "":
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				if len(r.Requested) == 0 && len(test.config.Outputs) > 0 {
					t.Error("no outputs are requested")
				}
			case err == nil:
				t.Errorf("got no error, want %s", test.want)
			case err.Error() != test.want || backend.AsError(err).Code != backend.InvalidArg:
				t.Errorf("got\n%v %v\nwant\n%s", backend.AsError(err).Code, err, test.want)
			}
		})
	}
}

func TestCheckNamesTheRequest(t *testing.T) {
	var o io
	o.init(&modelconfig.Config{Name: "m", Inputs: []modelconfig.Input{in("A", tensor.Int8, 1)}})
	r := infer.New(nil, nil)
	r.ID = "r7"
	if err := o.check(r); err == nil || !strings.HasPrefix(err.Error(), "[request id: r7] expected 1 inputs") {
		t.Errorf("got %v", err)
	}
}

func TestCheckWithManyInputs(t *testing.T) {
	c := &modelconfig.Config{Name: "m"}
	var inputs []tensor.Tensor
	for i := range 20 {
		name := string(rune('A' + i))
		c.Inputs = append(c.Inputs, in(name, tensor.Int8, 1))
		inputs = append([]tensor.Tensor{tensorOf(name, tensor.Int8, 1, 1)}, inputs...)
	}
	var o io
	o.init(c)
	r := infer.New(nil, nil)
	r.Inputs = inputs
	if err := o.check(r); err != nil {
		t.Error(err)
	}
	r.Inputs[3].Name = "ZZ"
	if err := o.check(r); err == nil || err.Error() != "unexpected inference input 'ZZ' for model 'm'" {
		t.Errorf("got %v", err)
	}
}

func TestReshape(t *testing.T) {
	for _, test := range []struct {
		s, from, to tensor.Shape
		batching    bool
		want        string
	}{
		{tensor.Shape{5, 1}, tensor.Shape{1}, tensor.Shape{}, true, "[5]"},
		{tensor.Shape{5, 2, 3}, tensor.Shape{2, 3}, tensor.Shape{6}, true, "[5,6]"},
		{tensor.Shape{2, 7, 3, 9}, tensor.Shape{2, -1, 3, -1}, tensor.Shape{2, -1, 1, 3, -1}, false, "[2,7,1,3,9]"},
		{tensor.Shape{4, 8, 2, 2}, tensor.Shape{-1, 2, 2}, tensor.Shape{-1, 4}, true, "[4,8,4]"},
		{tensor.Shape{3}, tensor.Shape{3}, tensor.Shape{1, 3, 1}, false, "[1,3,1]"},
	} {
		if got := reshape(test.s, test.from, test.to, test.batching).String(); got != test.want {
			t.Errorf("reshape(%s, %s, %s) = %s, want %s", test.s, test.from, test.to, got, test.want)
		}
	}
}
