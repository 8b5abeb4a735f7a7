package jsonwire

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

func TestEncode(t *testing.T) {
	var e tensorBytes
	out := func(name string, d tensor.Datatype, shape tensor.Shape, data []byte) tensor.Tensor {
		return tensor.Tensor{Name: name, Datatype: d, Shape: shape, Data: data}
	}
	for _, c := range []struct {
		name, id   string
		parameters []backend.Parameter
		outputs    []tensor.Tensor
		call       kserve.ResponseOptions
		want, tail string
	}{
		{
			name: "json", id: "a\"b\n\x01é",
			outputs: []tensor.Tensor{out("O", tensor.FP32, tensor.Shape{4}, floats(1, 0.1, float32(math.NaN()), float32(math.Inf(-1))))},
			want: `{"id":"a\"b\n\u0001é","model_name":"m","model_version":"3","outputs":[{"name":"O","datatype":"FP32","shape":[4],` +
				`"data":[1.0,0.10000000149011612,NaN,-Infinity]}]}`,
		},
		{
			name:    "binary default",
			outputs: []tensor.Tensor{out("O", tensor.FP32, tensor.Shape{1}, floats(1)), out("P", tensor.Bool, tensor.Shape{0}, nil)},
			call:    kserve.ResponseOptions{BinaryDefault: true},
			want: `{"model_name":"m","model_version":"3","outputs":[{"name":"O","datatype":"FP32","shape":[1],` +
				`"parameters":{"binary_data_size":4}},{"name":"P","datatype":"BOOL","shape":[0],"parameters":{"binary_data_size":0}}]}`,
			tail: string(floats(1)),
		},
		{
			name:    "a named output does not inherit the default",
			outputs: []tensor.Tensor{out("O", tensor.Int8, tensor.Shape{2}, []byte{255, 1}), out("P", tensor.Bool, tensor.Shape{2}, []byte{1, 0})},
			call:    kserve.ResponseOptions{BinaryDefault: true, Outputs: []kserve.OutputRequest{{Name: "O"}, {Name: "P", Binary: true}}},
			want: `{"model_name":"m","model_version":"3","outputs":[{"name":"O","datatype":"INT8","shape":[2],"data":[-1,1]},{"name":"P",` +
				`"datatype":"BOOL","shape":[2],"parameters":{"binary_data_size":2}}]}`,
			tail: "\x01\x00",
		},
		{
			name: "parameters",
			parameters: []backend.Parameter{
				backend.String("s", "x"), backend.Int("i", -1), backend.Uint("u", math.MaxUint64),
				backend.Bool("b", true), backend.Double("d", 2),
			},
			want: `{"model_name":"m","model_version":"3","parameters":{"s":"x","i":-1,"u":18446744073709551615,"b":true,"d":2.0},"outputs":[]}`,
		},
		{
			name: "all other types",
			outputs: []tensor.Tensor{
				out("a", tensor.Uint8, tensor.Shape{1}, []byte{200}), out("b", tensor.Int16, tensor.Shape{1}, []byte{0, 128}),
				out("c", tensor.Uint16, tensor.Shape{1}, []byte{0, 128}), out("d", tensor.Int32, tensor.Shape{1}, []byte{0, 0, 0, 128}),
				out("e", tensor.Uint32, tensor.Shape{1}, []byte{0, 0, 0, 128}), out("f", tensor.Int64, tensor.Shape{1}, []byte{
					0, 0, 0, 0, 0, 0, 0,
					128,
				}), out("g", tensor.Uint64, tensor.Shape{1}, []byte{0, 0, 0, 0, 0, 0, 0, 128}),
				out("h", tensor.FP64, tensor.Shape{1}, []byte{0, 0, 0, 0, 0, 0, 0, 128}), out("i", tensor.Bool, tensor.Shape{2}, []byte{1, 0}),
				out("j", tensor.Bytes, tensor.Shape{2}, e.of("x/", "\\")),
			},
			want: `{"model_name":"m","model_version":"3","outputs":[{"name":"a","datatype":"UINT8","shape":[1],"data":[200]},{"name":"b",` +
				`"datatype":"INT16","shape":[1],"data":[-32768]},{"name":"c","datatype":"UINT16","shape":[1],"data":[32768]},{"name":"d",` +
				`"datatype":"INT32","shape":[1],"data":[-2147483648]},{"name":"e","datatype":"UINT32","shape":[1],"data":[2147483648]},{"name":"f",` +
				`"datatype":"INT64","shape":[1],"data":[-9223372036854775808]},{"name":"g","datatype":"UINT64","shape":[1],` +
				`"data":[9223372036854775808]},{"name":"h","datatype":"FP64","shape":[1],"data":[-0.0]},{"name":"i","datatype":"BOOL","shape":[2],` +
				`"data":[true,false]},{"name":"j","datatype":"BYTES","shape":[2],"data":["x/","\\"]}]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w Response
			err := Encode(&w, &modelconfig.Config{Name: "m"}, c.id, 3, &backend.Response{Outputs: c.outputs, Parameters: c.parameters}, &c.call, nil)
			if err != nil {
				t.Fatal(err)
			}
			if string(w.JSON) != c.want {
				t.Errorf("got  %s\nwant %s", w.JSON, c.want)
			}
			if tail := string(bytes.Join(w.Tail, nil)); tail != c.tail || w.TailSize != len(c.tail) {
				t.Errorf("tail %q of %d, want %q", tail, w.TailSize, c.tail)
			}
		})
	}
	var w Response
	err := Encode(&w, &modelconfig.Config{Name: "m"}, "", 1, &backend.Response{Outputs: []tensor.Tensor{out("O", tensor.FP16, tensor.Shape{1},
		[]byte{0, 0})}}, &kserve.ResponseOptions{}, nil)
	if err == nil || err.Message != "sending FP16 data via JSON is not supported. Please use the binary data format for output" {
		t.Errorf("FP16 as JSON: %v", err)
	}
}

func TestDecodeRaw(t *testing.T) {
	config := func(d tensor.Datatype, batch int, dims ...int64) *modelconfig.Config {
		return &modelconfig.Config{Name: "m", MaxBatchSize: batch, Inputs: []modelconfig.Input{{Name: "IN", Datatype: d, Dims: dims}}}
	}
	two := config(tensor.FP32, 0, 1)
	two.Inputs = append(two.Inputs, two.Inputs[0])
	var e tensorBytes
	for _, c := range []struct {
		name        string
		cfg         *modelconfig.Config
		body        string
		shape, data string
		err         string
	}{
		{"one variable dimension", config(tensor.FP32, 0, -1), "12345678", "[2]", "12345678", ""},
		{"with a fixed one", config(tensor.FP32, 0, -1, 3), "123456789012", "[1,3]", "123456789012", ""},
		{"batch dimension", config(tensor.FP32, 8, -1), "12345678", "[1,2]", "12345678", ""},
		{"fixed", config(tensor.Uint8, 8, 3), "abc", "[1,3]", "abc", ""},
		{"empty", config(tensor.FP32, 0, -1), "", "[0]", "", ""},
		{"bytes", config(tensor.Bytes, 8, 1), "hello", "[1,1]", string(e.of("hello")), ""},
		{
			"bytes of another shape", config(tensor.Bytes, 0, -1), "hello", "", "",
			"[request id: <id_unknown>] For BYTE datatype raw input 'IN', the model must have input shape [1]",
		},
		{
			"two inputs", two, "1234", "", "",
			"[request id: <id_unknown>] Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'm' model configuration",
		},
		{
			"two variable dimensions", config(tensor.FP32, 0, -1, -1), "1234", "", "",
			"[request id: <id_unknown>] The shape of the raw input 'IN' can not be deduced because there are more than one variable-sized dimension",
		},
		{
			"odd size", config(tensor.FP32, 0, -1), "12345", "", "",
			"[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model 'm'. Expected 4, got 5",
		},
		{
			"odd rows", config(tensor.FP32, 0, -1, 3), "1234567", "", "",
			"[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model 'm'. Expected 0, got 7",
		},
		{
			"too large", config(tensor.Uint8, 0, -1), "12345678901234567", "", "",
			"Raw input has a byte_size (17 bytes) that exceeds the maximum allowed value of 16 bytes. Use --http-max-input-size to increase the " +
				"limit.",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for split := range len(c.body) + 1 {
				r, call := &backend.Request{}, &kserve.ResponseOptions{}
				err := DecodeRaw(r, call, kserve.Target{Config: c.cfg, Allocator: &counting{}},
					&Body{Tail: []byte(c.body[:split]), Rest: bytes.NewReader([]byte(c.body[split:])), RestSize: int64(len(c.body) - split), Limit: 16})
				if c.err != "" {
					if err == nil || err.Error() != c.err {
						t.Fatalf("got %v, want %s", err, c.err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if in := r.Inputs[0]; in.Name != "IN" || in.Shape.String() != c.shape || string(in.Data) != c.data || !call.BinaryDefault {
					t.Errorf("got %+v", in)
				}
			}
		})
	}
}

func TestControlBodies(t *testing.T) {
	if ready, err := DecodeIndex([]byte(`{"x":[],"ready":true}`)); !ready || err != nil {
		t.Errorf("index: %v, %v", ready, err)
	}
	const notBool = "Unable to parse 'ready': attempt to access JSON non-boolean as boolean"
	if _, err := DecodeIndex([]byte(`{"ready":1}`)); err == nil || err.Message != notBool {
		t.Errorf("index: %v", err)
	}
	config, files, err := DecodeLoad([]byte(`{"parameters":{"config":"{\"a\":1}","file:1/model.py":"aGk="}}`))
	if err != nil || config != `{"a":1}` || len(files) != 1 || string(files["1/model.py"]) != "hi" {
		t.Errorf("load: %q %q %v", config, files, err)
	}
	for body, want := range map[string]string{
		`{"parameters":{"config":1}}`:   "attempt to access JSON non-string as string",
		`{"parameters":{"x":"y"}}`:      "unexpected error on creating Triton parameter",
		`{"parameters":{"file:a":"#"}}`: "failed to decode 'file:a': illegal base64 data at input byte 0",
		`{"parameters":1}`:              "attempt to get members for non-object",
		`{`:                             "failed to parse the request JSON buffer: Missing a name for object member. at 1",
	} {
		if _, _, err := DecodeLoad([]byte(body)); err == nil || err.Message != want {
			t.Errorf("load %s: got %v, want %s", body, err, want)
		}
	}
	if all, err := DecodeUnload([]byte(`{"parameters":{"unload_dependents":true}}`)); !all || err != nil {
		t.Errorf("unload: %v, %v", all, err)
	}
	if _, err := DecodeUnload([]byte(`x`)); err == nil || err.Message != "failed to parse the request JSON buffer: Invalid value. at 0" {
		t.Errorf("unload: %v", err)
	}
	if all, err := DecodeUnload(nil); all || err != nil {
		t.Errorf("unload without a body: %v, %v", all, err)
	}
	s := logging.DefaultSettings()
	change, err := DecodeLogging([]byte(`{"log_info":false,"log_error":null,"log_verbose_level":2,"log_format":"ISO8601"}`))
	change.Apply(&s)
	if err != nil || s.Info || !s.Error || s.Verbose != 2 || s.Format != "ISO8601" {
		t.Errorf("logging: %+v, %v", s, err)
	}
	for body, want := range map[string]string{
		``:                          "failed to parse the request JSON buffer: The document is empty. at 0",
		`{"log_file":"x"}`:          "log file location can not be updated through network protocol",
		`{"log_info":1}`:            "Unable to parse 'log_info': attempt to access JSON non-boolean as boolean",
		`{"log_verbose_level":-1}`:  "Unable to parse 'log_verbose_level': attempt to access JSON non-unsigned-integer as unsigned-integer",
		`{"log_verbose_level":[1]}`: "Unable to parse 'log_verbose_level': attempt to access JSON non-unsigned-integer as unsigned-integer",
	} {
		if _, err := DecodeLogging([]byte(body)); err == nil || err.Message != want {
			t.Errorf("logging %s: got %v, want %s", body, err, want)
		}
	}
}

func TestMetadata(t *testing.T) {
	cfg := &modelconfig.Config{
		Name: "m", Backend: "python", MaxBatchSize: 4,
		Inputs:  []modelconfig.Input{{Name: "I", Datatype: tensor.FP32, Dims: tensor.Shape{16}}},
		Outputs: []modelconfig.Output{{Name: "O", Datatype: tensor.Bytes, Dims: tensor.Shape{-1, 2}}},
	}
	want := `{"name":"m","versions":["1","3"],"platform":"python","inputs":[{"name":"I","datatype":"FP32","shape":[-1,16]}],` +
		`"outputs":[{"name":"O","datatype":"BYTES","shape":[-1,-1,2]}]}`
	if got := string(AppendModelMetadata(nil, cfg, []int64{1, 3})); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	want = `{"name":"n","version":"1","extensions":["a","b"]}`
	if got := string(AppendServerMetadata(nil, "n", "1", []string{"a", "b"})); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	got := AppendIndexEntry(AppendIndexEntry(nil, 0, "a", "", "", ""), 1, "b", "2", "READY", "")
	if want = `{"name":"a"},{"name":"b","version":"2","state":"READY"}`; string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	snapshot := stats.Snapshot{
		Success: stats.Duration{Count: 1, Nanos: 2}, Batches: []stats.BatchSnapshot{{Size: 1}, {Size: 2}},
		Responses: []stats.ResponseSnapshot{{Index: 0}, {Index: 1}},
	}
	all := EndStatistics(AppendStatistics(AppendStatistics(BeginStatistics(nil), 0, "m", 1, snapshot, nil), 1, "m", 2, snapshot,
		[]backend.MemoryUsage{{Type: "CPU", Bytes: 4096}}))
	var reply struct {
		Stats []struct {
			Name, Version string
			Inference     map[string]struct{ Count, Ns int }            `json:"inference_stats"`
			Responses     map[string]map[string]struct{ Count, Ns int } `json:"response_stats"`
			Batches       []map[string]any                              `json:"batch_stats"`
			Memory        []map[string]any                              `json:"memory_usage"`
		} `json:"model_stats"`
	}
	if err := json.Unmarshal(all, &reply); err != nil {
		t.Fatalf("%v in %s", err, all)
	}
	if m := reply.Stats[1]; len(reply.Stats) != 2 || m.Version != "2" || m.Inference["success"].Ns != 2 || len(m.Inference) != 8 ||
		len(m.Responses["1"]) != 6 || len(m.Batches) != 2 || len(m.Batches[0]) != 4 {
		t.Errorf("got %s", all)
	}
	if a, b := reply.Stats[0].Memory, reply.Stats[1].Memory; a == nil || len(a) != 0 || len(b) != 1 || b[0]["type"] != "CPU" ||
		b[0]["id"] != 0.0 || b[0]["byte_size"] != 4096.0 {
		t.Errorf("got %s", all)
	}
}
