package completion

import (
	"encoding/json"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		name, file string
		batch      int
		ios        []IO
		want       string
	}{
		{
			"all of it", `{"name":"m"}`, 4,
			[]IO{NewIO("X", tensor.FP32, tensor.Shape{-1, 3}, true)},
			`{"dynamic_batching":{},"input":[{"name":"X","data_type":"TYPE_FP32","dims":[3]}],"max_batch_size":4,"name":"m","output":[]}`,
		},
		{
			"a scheduler of its own", `{"input":[{}],"sequence_batching":{"direct":{}}}`, 4, nil,
			`{"input":[{}],"max_batch_size":4,"output":[],"sequence_batching":{"direct":{}}}`,
		},
		{
			"no batches", `{}`, 0,
			[]IO{NewIO("X", tensor.Bytes, nil, false)},
			`{"input":[{"name":"X","data_type":"TYPE_STRING","dims":[1]}],"max_batch_size":0,"output":[]}`,
		},
		{
			"one number a row", `{}`, 1,
			[]IO{NewIO("X", tensor.Int64, tensor.Shape{-1}, true)},
			`{"input":[{"name":"X","data_type":"TYPE_INT64","dims":[1],"reshape":{"shape":[]}}],"max_batch_size":1,"output":[]}`,
		},
		{
			"what is not ours stays", `{"input":[{"name":"A"}],"metric_tags":{"a":"b"}}`, 0, nil,
			`{"input":[{"name":"A"}],"max_batch_size":0,"metric_tags":{"a":"b"},"output":[]}`,
		},
		{"inputs that the batcher makes", `{"batch_input":[{}]}`, 0, nil, `{"batch_input":[{}],"max_batch_size":0,"output":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := Read(&backend.Config{Name: "m", JSON: json.RawMessage(c.file)})
			if err != nil {
				t.Fatal(err)
			}
			inputs := func() ([]IO, error) { return c.ios, nil }
			none := func() ([]IO, error) { return []IO{}, nil }
			if got, err := config.Complete(c.batch, inputs, none); err != nil || string(got) != c.want {
				t.Errorf("got %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
	if config, err := Read(&backend.Config{Name: "m", JSON: []byte(`{"input":[{}],"output":[{}]}`)}); config != nil || err != nil {
		t.Errorf("a complete one: %v, %v", config, err)
	}
	if _, err := Read(&backend.Config{Name: "m", JSON: []byte("{")}); backend.AsError(err).Code != backend.Internal {
		t.Errorf("half a configuration: %v", err)
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "7": "", "-1": "backend-config=b,k=-1: expected a whole number", "x": "backend-config=b,k=x: expected a whole number",
	} {
		values := map[string]string{"k": text}
		if text == "" {
			values = nil
		}
		n, got := 5, ""
		if err := Number("b", backend.Settings{Values: values}, "k", &n); err != nil {
			got = err.Error()
		}
		if got != want || (text == "7") != (n == 7) {
			t.Errorf("%q: %d, %q, want %q", text, n, got, want)
		}
	}
}

func TestWrite(t *testing.T) {
	for want, got := range map[string]string{
		"dims: [ 3, -1 ]":                        Write(tensor.Shape{-1, 3, -1}, true),
		"dims: [ -1, 3, 2 ]":                     Write(tensor.Shape{-1, 3, 2}, false),
		"dims: [ 1 ] and reshape { shape: [ ] }": Write(tensor.Shape{-1}, true),
		"dims: [ 1 ]":                            Write(tensor.Shape{}, false),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDims(t *testing.T) {
	if got := Dims(tensor.Shape{3, -1}); got != "[ 3, -1 ]" {
		t.Errorf("got %s", got)
	}
}
