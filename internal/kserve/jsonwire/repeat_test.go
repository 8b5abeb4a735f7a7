package jsonwire

import (
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

const (
	tensors = `{"inputs":[{"name":"A","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},` +
		`{"name":"B","shape":[3],"datatype":"FP32","parameters":{"binary_data_size":12}}]`
	repeated = tensors + `,"outputs":[{"name":"OA","parameters":{"binary_data":true}}]}`
	unnamed  = tensors + `}`
)

// TestRepeatedText: a text is remembered for its configuration, and what a
// request does with its shapes does not come back; see also decode, by which all
// tests read their texts again.
func TestRepeatedText(t *testing.T) {
	var d Decoder
	cfg := testConfig(tensor.FP32, "A", "B")
	read := func(cfg *modelconfig.Config, text string) (*backend.Request, *kserve.ResponseOptions) {
		r, c := &backend.Request{}, &kserve.ResponseOptions{}
		if err := d.Decode(r, c, kserve.Target{Config: cfg, Allocator: &counting{}},
			&Body{JSON: []byte(text), Tail: floats(1, 2, 3, 4, 5)}); err != nil {
			t.Fatal(err)
		}
		return r, c
	}
	for range 3 {
		r, c := read(cfg, repeated)
		if d.latest.cfg != cfg {
			t.Error("the text was not remembered")
		}
		a, b := &r.Inputs[0], &r.Inputs[1]
		if a.Name != "A" || a.Shape.String() != "[1,2]" || b.Shape.String() != "[3]" || b.Datatype != tensor.FP32 ||
			string(b.Data) != string(floats(3, 4, 5)) ||
			len(r.Requested) != 1 || r.Requested[0] != "OA" || len(c.Outputs) != 1 || !c.Outputs[0].Binary {
			t.Fatalf("%+v %+v", r, c)
		}
		a.Shape[0], a.Shape[1], b.Shape[0] = 7, 7, 7
	}
	other := testConfig(tensor.FP32, "A", "B")
	read(other, repeated)
	if d.latest.cfg != other {
		t.Error("what was read for another configuration was used")
	}
	for _, binary := range []string{"true", "false"} {
		for range 2 {
			_, c := read(cfg, `{"parameters":{"binary_data_output":`+binary+`},`+unnamed[1:])
			if d.latest.cfg != cfg || c.BinaryDefault != (binary == "true") || len(c.Outputs) != 0 {
				t.Errorf("%s: remembered %v, %+v", binary, d.latest.cfg == cfg, c)
			}
		}
	}
	if _, c := read(cfg, unnamed); c.BinaryDefault {
		t.Error("what another text says of outputs was used")
	}
	for _, text := range []string{
		`{"id":"x",` + repeated[1:],
		`{"parameters":{"binary_data_output":true,"priority":1},` + repeated[1:],
		`{"parameters":{"own":"x","binary_data_output":true},` + repeated[1:],
		`{"parameters":{"sequence_id":1},` + repeated[1:],
	} {
		r, _ := read(cfg, text)
		if d.latest.cfg != nil {
			t.Errorf("%.40s was remembered", text)
		}
		if r.ID == "" && r.Correlation.IsZero() && r.Priority == 0 && len(r.Parameters) == 0 {
			t.Errorf("%.40s: %+v", text, r)
		}
	}
}

func BenchmarkDecodeHead(b *testing.B) {
	cfg, tail := testConfig(tensor.FP32, "A", "B"), floats(1, 2, 3, 4, 5)
	for _, c := range []struct{ name, text string }{
		{"repeated", repeated}, {"all outputs", `{"parameters":{"binary_data_output":true},` + unnamed[1:]}, {"new", `{"id":"x",` + repeated[1:]},
	} {
		b.Run(c.name, func(b *testing.B) {
			var d Decoder
			text := []byte(c.text)
			r, call := &backend.Request{}, &kserve.ResponseOptions{}
			b.ReportAllocs()
			for b.Loop() {
				r.Inputs, r.Requested = nil, nil
				call.Reset()
				if err := d.Decode(r, call, kserve.Target{Config: cfg, Allocator: &counting{}}, &Body{JSON: text, Tail: tail}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
