package jsonwire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// generateConfig has inputs of several datatypes and shapes.
func generateConfig() *modelconfig.Config {
	return &modelconfig.Config{Name: "m", Inputs: []modelconfig.Input{
		{Name: "f", Datatype: tensor.FP32, Dims: tensor.Shape{-1}},
		{Name: "i", Datatype: tensor.Int8, Dims: tensor.Shape{2, -1}},
		{Name: "u", Datatype: tensor.Uint64, Dims: tensor.Shape{-1, -1}},
		{Name: "b", Datatype: tensor.Bool, Dims: tensor.Shape{1}},
		{Name: "s", Datatype: tensor.Bytes, Dims: tensor.Shape{-1, 2, -1}},
	}}
}

// decodeGenerate decodes a body, and checks that nothing leaks and that memory
// is in proportion to the text.
func decodeGenerate(t *testing.T, cfg *modelconfig.Config, text string) (*backend.Request, *backend.Error) {
	t.Helper()
	var d Decoder
	a := &counting{}
	r := &backend.Request{}
	err := d.DecodeGenerate(r, kserve.Target{Config: cfg, Allocator: a}, &Body{JSON: []byte(text), Limit: 1 << 20})
	if a.bytes > 4*len(text)+8*len(r.Inputs) {
		t.Errorf("%.60s: %d bytes allocated for %d", text, a.bytes, len(text))
	}
	t.Cleanup(func() {
		for i := range r.Inputs {
			r.Inputs[i].Release()
		}
		if a.held != 0 {
			t.Errorf("%.60s: %d buffers leaked", text, a.held)
		}
	})
	return r, err
}

func TestGenerateShapes(t *testing.T) {
	tests := []struct {
		dims    string
		batched bool
		n       int
		want    string
	}{
		{"[-1]", false, 5, "[5]"},
		{"[-1]", false, 0, "[0]"},
		{"[1]", false, 1, "[1]"},
		{"[1]", false, 2, ""},
		{"[1]", false, 0, ""},
		{"[2,-1]", false, 6, "[2,3]"},
		{"[2,-1]", false, 5, ""},
		{"[2,-1]", false, 0, "[2,0]"},
		{"[-1,2]", false, 6, "[3,2]"},
		{"[-1,-1]", false, 6, "[1,6]"},
		{"[-1,3,-1]", false, 6, "[1,3,2]"},
		{"[2,2]", false, 4, "[2,2]"},
		{"[2,2]", false, 8, ""},
		{"[2,2]", true, 8, "[2,2,2]"},
		{"[2,2]", true, 0, "[0,2,2]"},
		{"[-1]", true, 4, "[1,4]"},
		{"[-1,2]", true, 6, "[1,3,2]"},
		{"[0]", false, 0, "[0]"},
		{"[0]", false, 1, ""},
		{"[9223372036854775807,9223372036854775807]", false, 1, ""},
	}
	for _, tt := range tests {
		var dims tensor.Shape
		if err := json.Unmarshal([]byte(tt.dims), &dims); err != nil {
			t.Fatal(err)
		}
		shape, ok := generateShape(dims, tt.batched, tt.n)
		got := ""
		if ok {
			got = shape.String()
		}
		if got != tt.want {
			t.Errorf("%d elements for %s, batched %v: got %q, want %q", tt.n, tt.dims, tt.batched, got, tt.want)
		}
	}
}

func TestGenerateValues(t *testing.T) {
	text := `{"x":1,"f":[1,[-0.5]],"i":[1,-1,300,-129],"u":18446744073709551615,"b":true,"id":"me",
		"parameters":{"y":"t","s":["a","","b\u00e9","d"],"id":"no"},"z":2.5,"n":18446744073709551615}`
	r, err := decodeGenerate(t, generateConfig(), text)
	if err != nil {
		t.Fatal(err)
	}
	want := []tensor.Tensor{
		{Name: "f", Datatype: tensor.FP32, Shape: tensor.Shape{2}, Data: floats(1, -0.5)},
		{Name: "i", Datatype: tensor.Int8, Shape: tensor.Shape{2, 2}, Data: []byte{1, 0xff, 44, 127}},
		{Name: "u", Datatype: tensor.Uint64, Shape: tensor.Shape{1, 1}, Data: bytes.Repeat([]byte{0xff}, 8)},
		{Name: "b", Datatype: tensor.Bool, Shape: tensor.Shape{1}, Data: []byte{1}},
		{
			Name: "s", Datatype: tensor.Bytes, Shape: tensor.Shape{1, 2, 2},
			Data: []byte("\x01\x00\x00\x00a\x00\x00\x00\x00\x03\x00\x00\x00b\u00e9\x01\x00\x00\x00d"),
		},
	}
	if len(r.Inputs) != len(want) {
		t.Fatalf("%d inputs", len(r.Inputs))
	}
	for i, w := range want {
		g := r.Inputs[i]
		if g.Name != w.Name || g.Datatype != w.Datatype || g.Shape.String() != w.Shape.String() || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("got %s %s %s %q, want %s %s %s %q", g.Name, g.Datatype, g.Shape, g.Data, w.Name, w.Datatype, w.Shape, w.Data)
		}
	}
	params := []backend.Parameter{
		backend.Int("x", 1), backend.String("id", "me"), backend.String("y", "t"), backend.String("id", "no"),
		backend.Double("z", 2.5), backend.Double("n", 18446744073709551615),
	}
	if r.ID != "me" || len(r.Parameters) != len(params) {
		t.Fatalf("id %q, parameters %v", r.ID, r.Parameters)
	}
	for i, p := range params {
		if r.Parameters[i] != p {
			t.Errorf("parameter %d: got %v, want %v", i, r.Parameters[i], p)
		}
	}
}

// TestGenerateFaults has values of which each has two faults: the peer's order holds.
func TestGenerateFaults(t *testing.T) {
	const shape, text = "to tensor with proper shape", "attempt to access JSON non-string as string"
	for body, want := range map[string]string{
		`{"s":["a"]}`: shape, `{"s":"a"}`: shape, `{"s":1}`: text, `{"s":[1]}`: text, `{"s":["a",2,"b"]}`: text,
		`{"b":["a","b"]}`: shape, `{"s":[]}`: "",
	} {
		_, err := decodeGenerate(t, generateConfig(), body)
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestGenerateBounds(t *testing.T) {
	big := "[" + strings.Repeat("1,", 1<<17) + "1]" // 1 MiB and 8 bytes of UINT64
	_, err := decodeGenerate(t, generateConfig(), `{"u":`+big+`}`)
	if want := "request size of 262153 bytes with input 'u' of size 1048584 bytes exceeds the maximum allowed input size of 1048576. Use " +
		"--http-max-input-size to increase the limit."; err == nil || err.Message != want {
		t.Errorf("got %v", err)
	}
	_, err = decodeGenerate(t, generateConfig(), `{`+strings.Repeat(`"a":1,`, kserve.MaxParameters)+`"a":1}`)
	if err == nil || err.Message != "too many parameters" {
		t.Errorf("got %v", err)
	}
	cfg := &modelconfig.Config{Inputs: []modelconfig.Input{{Name: "parameters", Datatype: tensor.FP32, Dims: tensor.Shape{-1}}}}
	for _, text := range []string{`{"parameters":1}`, `{"parameters":{}}`} {
		if _, err := decodeGenerate(t, cfg, text); err == nil ||
			err.Message != "Keyword 'parameters' for nested schema also given as input tensor name" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzGenerate feeds arbitrary text. What is accepted must be what
// encoding/json reads out of it, as far as that takes it.
func FuzzGenerate(f *testing.F) {
	for _, text := range []string{
		`{"f":1}`, `{"f":[1,-2e3],"id":"a","parameters":{"i":[1,2]}}`, `{"s":["a","\u00e9"],"b":false,"x":"y"}`, `{"u":[[1],2]}`,
		`{"id":1}`, `[]`, ``, `{"f":NaN,"b":[true]}`, `{"parameters":{"parameters":1},"f":[]}`,
	} {
		f.Add([]byte(text))
	}
	cfg := generateConfig()
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decodeGenerate(t, cfg, string(text))
		if err != nil {
			if err.Code != backend.InvalidArg || err.Message == "" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for i := range r.Inputs {
			in := &r.Inputs[i]
			if size, fault := tensor.ByteSize(in.Datatype, in.Shape); fault != nil || in.Datatype != tensor.Bytes && size != int64(len(in.Data)) {
				t.Errorf("%q: input %s has shape %s and %d bytes", text, in.Name, in.Shape, len(in.Data))
			}
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var twin map[string]any
		if dec.Decode(&twin) != nil {
			return // NaN and other things that only this parser takes
		}
		in := r.Input("f")
		v, there := twin["f"]
		if _, nested := twin[generateNested]; in == nil || nested || !there {
			return
		}
		var want []byte
		flatten(v, &want)
		if !bytes.Equal(want, in.Data) {
			t.Errorf("%q: got %x, want %x", text, in.Data, want)
		}
	})
}
