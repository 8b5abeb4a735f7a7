package data

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/tensor"
)

func fp32(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// TestJSON reads each form that a tensor has in a file.
func TestJSON(t *testing.T) {
	inputs := []Input{
		{Name: "X", Datatype: tensor.FP32, Shape: tensor.Shape{-1}},
		{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Optional: true},
	}
	file := write(t, "data.json", `{"data":[
		{"X":[1,2],"S":["a"]},
		{"X":{"content":[[3],[4]],"shape":[2]}},
		{"X":{"b64":"AACAPwAAAEA="},"S":{"b64":"YWI="}},
		{"X":{"content":{"b64":"AACAPw=="},"shape":[1]}}],
		"validation_data":[{"Y":[1]},{},{},{"Y":[2]}]}`)
	set, err := New(Options{
		Inputs: inputs, Outputs: []Input{{Name: "Y", Datatype: tensor.Int64, Shape: tensor.Shape{1}}}, Paths: []string{file}, Batch: 1,
	}, random())
	if err != nil {
		t.Fatal(err)
	}
	x := func(values ...float32) Tensor {
		return Tensor{Name: "X", Datatype: tensor.FP32, Shape: tensor.Shape{int64(len(values))}, Bytes: fp32(values...)}
	}
	s := func(v string) Tensor {
		return Tensor{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Bytes: tensor.AppendElement(nil, v)}
	}
	y := func(v byte) []Tensor {
		return []Tensor{{Name: "Y", Datatype: tensor.Int64, Shape: tensor.Shape{1}, Bytes: []byte{v, 0, 0, 0, 0, 0, 0, 0}}}
	}
	want := [][]Step{{
		{Inputs: []Tensor{x(1, 2), s("a")}, Expected: y(1)},
		{Inputs: []Tensor{x(3, 4)}},
		{Inputs: []Tensor{x(1, 2), s("ab")}},
		{Inputs: []Tensor{x(1)}, Expected: y(2)},
	}}
	if diff := cmp.Diff(set.Streams, want); diff != "" {
		t.Error(diff)
	}
}

func TestBatchTakesStepsInTurn(t *testing.T) {
	file := write(t, "data.json", `{"data":[[{"X":[1]},{"X":[2]}],[{"X":[3]}]]}`)
	o := Options{
		Inputs: []Input{{Name: "X", Datatype: tensor.Int8, Shape: tensor.Shape{1}}}, Paths: []string{file}, Batch: 2, Batches: true,
	}
	values := func(sequence bool) (all [][]string) {
		o.Sequence = sequence
		set, err := New(o, random())
		if err != nil {
			t.Fatal(err)
		}
		for _, stream := range set.Streams {
			var one []string
			for _, s := range stream {
				one = append(one, s.Inputs[0].Shape.String()+string('0'+s.Inputs[0].Bytes[0])+string('0'+s.Inputs[0].Bytes[1]))
			}
			all = append(all, one)
		}
		return all
	}
	if diff := cmp.Diff(values(false), [][]string{{"[2,1]12", "[2,1]31", "[2,1]23"}}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(values(true), [][]string{{"[2,1]11", "[2,1]22"}, {"[2,1]33"}}); diff != "" {
		t.Error(diff)
	}
}

func TestGenerated(t *testing.T) {
	hello := "hello"
	o := Options{
		Inputs: []Input{
			{Name: "F", Datatype: tensor.FP16, Shape: tensor.Shape{-1, 3}},
			{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{2}},
			{Name: "O", Datatype: tensor.Int8, Shape: tensor.Shape{1}, Optional: true},
		},
		Shapes: map[string][]int64{"F": {2, 3}}, StringData: &hello, Batch: 3, Batches: true,
	}
	set, err := New(o, random())
	if err != nil {
		t.Fatal(err)
	}
	in := set.Streams[0][0].Inputs
	if len(in) != 2 || !in[0].Shape.Equal(tensor.Shape{3, 2, 3}) || len(in[0].Bytes) != 36 || string(in[1].Bytes[4:9]) != "hello" {
		t.Errorf("%+v", in)
	}
	o.StringData, o.StringLength, o.Zero = nil, 7, false
	set, _ = New(o, random())
	if got := set.Streams[0][0].Inputs[1].Bytes; len(got) != 3*2*(4+7) {
		t.Errorf("six strings of 7 characters in %d bytes", len(got))
	}
	o.Zero = true
	set, _ = New(o, random())
	if got := set.Streams[0][0].Inputs; string(got[0].Bytes) != strings.Repeat("\x00", 36) || len(got[1].Bytes) != 24 {
		t.Errorf("%+v", got)
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"X": string(fp32(1, 2)), "S": "a\nbc\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := New(Options{Inputs: []Input{
		{Name: "X", Datatype: tensor.FP32, Shape: tensor.Shape{2}}, {Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{2}},
	}, Paths: []string{dir}}, random())
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Streams[0][0].Inputs; string(got[1].Bytes) != "\x01\x00\x00\x00a\x02\x00\x00\x00bc" || len(got[0].Bytes) != 8 {
		t.Errorf("%+v", got)
	}
}

// TestFaults: each mistake is an error that names what is wrong.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"data":`:                       "line 1",
		`{}`:                             "data field",
		`[]`:                             "line 1: expected an object with the field 'data', found JSON of the kind array",
		"{\n\"data\":5}":                 "line 2: the field 'data' cannot be of the kind number",
		`{"data":[5]}`:                   "data[0]: expected an object with the model's inputs, found number",
		`{"data":[null]}`:                "data[0]: missing tensor X",
		`{"data":[{"X":{"shape":"a"}}]}`: "input 'X': the field 'shape' cannot be of the kind string",
		`{"data":[{"Z":[1]}]}`:           "'Z' is not found",
		`{"data":[{}]}`:                  "missing tensor X",
		`{"data":[{"X":[1,2,3]}]}`:       "mismatch in the data provided for 'X': its shape [2] has 2 elements, got 3",
		`{"data":[{"X":["a","b"]}]}`:     "a is no INT8",
		`{"data":[{"X":[1,300]}]}`:       "300 is no INT8",
		`{"data":[{"X":[1,null]}]}`:      "is no INT8",
		`{"data":[{"X":{"content":[1,2],"shape":[3]}}]}`:     "[2], which [3] does not match",
		`{"data":[{"X":{"b64":"!"}}]}`:                       "base64",
		`{"data":[[]]}`:                                      "without a request",
		`{"data":[{"X":[1,2]}],"validation_data":[]}`:        "",
		`{"data":[{"X":[1,2]}],"validation_data":[{},{}]}`:   "align",
		`{"data":[{"X":[1,2]}],"validation_data":[{"Q":1}]}`: "'Q' is not found",
	} {
		_, err := New(Options{
			Inputs: []Input{{Name: "X", Datatype: tensor.Int8, Shape: tensor.Shape{2}}}, Paths: []string{write(t, "d.json", text)},
		}, random())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	x := []Input{{Name: "X", Datatype: tensor.Int8, Shape: tensor.Shape{-1}}}
	want := "input X contains dynamic shape, provide shapes to send along with the request, such as --shape X:16"
	if _, err := New(Options{Inputs: x}, random()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("open shape: %v", err)
	}
	if _, err := New(Options{Inputs: x, Shapes: map[string][]int64{"Y": {1}}}, random()); err == nil {
		t.Error("a shape for an input that the model has not")
	}
}

// TestHalf compares with the way back, which tensor has.
func TestHalf(t *testing.T) {
	for bits := range 0x7c00 {
		v := tensor.FloatFP16(uint16(bits))
		if got := half(float64(v)); got != uint16(bits) {
			t.Fatalf("%v: %#x, want %#x", v, got, bits)
		}
		if got := half(-float64(v)); got != uint16(bits)|0x8000 {
			t.Fatalf("-%v: %#x", v, got)
		}
	}
	for f, want := range map[float64]uint16{1e9: 0x7c00, math.Inf(1): 0x7c00, math.NaN(): 0x7e00, 1 + 1.0/2048: 0x3c00, 65519: 0x7bff} {
		if got := half(f); got != want {
			t.Errorf("%v: %#x, want %#x", f, got, want)
		}
	}
}

// FuzzRead: whatever a file has, there is data or an error.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`{"data":[{"X":[1,2]},{"X":{"b64":"AQI="}}],"validation_data":[{"Y":["a"]},{}]}`,
		`{"data":[[{"X":{"content":[[1],[2]],"shape":[2]}}]]}`, `{"data":[{"X":[1,2],"timestamp":[5]}]}`,
		`{"data":[{"payload":["{}"],"timestamp":1}]}`,
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, scheduled bool) {
		path := filepath.Join(t.TempDir(), "d.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = ReadBodies([]string{path}, scheduled)
		set, err := New(Options{
			Inputs:  []Input{{Name: "X", Datatype: tensor.Int8, Shape: tensor.Shape{-1}}},
			Outputs: []Input{{Name: "Y", Datatype: tensor.Bytes, Shape: tensor.Shape{1}}}, Paths: []string{path}, Batch: 2, Batches: true,
			Scheduled: scheduled,
		}, random())
		if err == nil && len(set.Streams) == 0 {
			t.Error("neither data nor an error")
		}
	})
}
