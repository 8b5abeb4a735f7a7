package jsonwire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// counting is an allocator that knows what is still held.
type counting struct{ held, bytes int }

func (a *counting) Allocate(size int) (*tensor.Buffer, error) {
	a.held++
	a.bytes += size
	return tensor.NewBuffer(make([]byte, size), a), nil
}

func (a *counting) ReleaseBuffer(*tensor.Buffer) { a.held-- }

// testConfig is a model "m" with inputs and outputs of one datatype.
func testConfig(d tensor.Datatype, names ...string) *modelconfig.Config {
	c := &modelconfig.Config{Name: "m"}
	for _, n := range names {
		c.Inputs = append(c.Inputs, modelconfig.Input{Name: n, Datatype: d, Dims: tensor.Shape{-1}})
		c.Outputs = append(c.Outputs, modelconfig.Output{Name: "O" + n, Datatype: d, Dims: tensor.Shape{-1}})
	}
	return c
}

// decode decodes a body with a binary tail, and checks that nothing leaks.
func decode(t *testing.T, cfg *modelconfig.Config, head string, tail []byte, rest io.Reader, restSize int) (*backend.Request,
	*kserve.ResponseOptions, error,
) {
	t.Helper()
	var d Decoder
	if rest == nil { // what has been read before means the same again
		defer func() { decodeAgain(t, &d, cfg, head, tail, restSize) }()
	}
	a := &counting{}
	r, c := &backend.Request{}, &kserve.ResponseOptions{}
	err := d.Decode(r, c, kserve.Target{Config: cfg, Allocator: a},
		&Body{JSON: []byte(head), Tail: tail, Rest: rest, RestSize: int64(restSize), Limit: 1 << 20})
	if a.bytes > 4*len(head)+len(tail)+restSize+64*len(r.Inputs) {
		t.Errorf("%.60s: %d bytes allocated for %d", head, a.bytes, len(head)+len(tail)+restSize)
	}
	t.Cleanup(func() {
		for i := range r.Inputs {
			r.Inputs[i].Release()
		}
		if a.held != 0 {
			t.Errorf("%.60s: %d buffers leaked", head, a.held)
		}
	})
	return r, c, err
}

// decodeAgain has the decoder read a text twice more, the second time after it has
// forgotten the first.
func decodeAgain(t *testing.T, d *Decoder, cfg *modelconfig.Config, head string, tail []byte, restSize int) {
	t.Helper()
	var all [2]string
	for i := range all {
		a := &counting{}
		r, c := &backend.Request{}, &kserve.ResponseOptions{}
		err := d.Decode(r, c, kserve.Target{Config: cfg, Allocator: a}, &Body{
			JSON: []byte(head), Tail: tail, RestSize: int64(restSize),
			Limit: 1 << 20,
		})
		for k := range r.Inputs {
			all[i] += fmt.Sprintf("%q %v %v %x; ", r.Inputs[k].Name, r.Inputs[k].Datatype, r.Inputs[k].Shape, r.Inputs[k].Data)
			r.Inputs[k].Release()
			r.Inputs[k].Buffer = nil
		}
		inputs := r.Inputs
		r.Inputs = nil
		all[i] += fmt.Sprintf("%d %+v %+v %+v %v", len(inputs), *r, c.Outputs, c.BinaryDefault, err)
		if a.held != 0 {
			t.Errorf("%.60s: %d buffers leaked", head, a.held)
		}
		d.latest = repeat{}
	}
	if all[0] != all[1] {
		t.Errorf("%s: again\n%s\nanew\n%s", head, all[0], all[1])
	}
}

const std = `"name":"IN","shape":[2],"datatype":"FP32"`

// The texts are the peer's; faults of JSON's syntax are in TestFaults.
func TestDecodeErrors(t *testing.T) {
	const source = "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in " +
		"'parameters'. But "
	input := func(text string) string { return `{"inputs":[{` + text + `}]}` }
	outputs := func(text string) string {
		return `{"inputs":[{` + std + `,"data":[1,2]}],"outputs":` + text + `}`
	}
	params := func(text string) string {
		return `{"parameters":` + text + `,"inputs":[{` + std + `,"data":[1,2]}]}`
	}
	dt := func(d, data string) string {
		return `{"inputs":[{"name":"IN","shape":[2],"datatype":"` + d + `","data":` + data + `}]}`
	}
	for _, c := range []struct{ body, want string }{
		{`[]`, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"},
		{`{}`, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"},
		{`{"inputs":1}`, "Unable to parse 'inputs': attempt to access JSON non-array as array"},
		{`{"inputs":null}`, "Unable to parse 'inputs': attempt to access JSON non-array as array"},
		{`{"inputs":[1]}`, source + "no field is set"},
		{input(``), source + "no field is set"},
		{input(`"name":1`), source + "no field is set"},
		{input(std), source + "no field is set"},
		{input(std + `,"parameters":{"binary_data_size":8},"data":[1,2]`), source + "set 'data' 'binary_data_size'"},
		{
			input(std + `,"data":[1,2],"parameters":{"shared_memory_region":"r","binary_data_size":8}`),
			source + "set 'data' 'binary_data_size' 'shared_memory_region'",
		},
		{input(std + `,"parameters":{"shared_memory_region":"r"}`), "Unable to find shared memory region: 'r'"},
		{
			input(std + `,"parameters":{"shared_memory_region":5,"shared_memory_byte_size":8}`),
			"Unable to parse 'shared_memory_region': attempt to access JSON non-string as string",
		},
		{
			input(std + `,"parameters":{"binary_data_size":"8"}`),
			"Unable to parse 'binary_data_size': attempt to access JSON non-unsigned-integer as unsigned-integer",
		},
		{
			input(std + `,"parameters":{"binary_data_size":-8}`),
			"Unable to parse 'binary_data_size': attempt to access JSON non-unsigned-integer as unsigned-integer",
		},
		{input(std + `,"parameters":{"binary_data_size":8}`), "unexpected size for input 'IN', expecting 8 additional bytes for model 'm'"},
		{
			input(std + `,"parameters":{"binary_data_size":18446744073709551615}`),
			"unexpected size for input 'IN', expecting 18446744073709551615 additional bytes for model 'm'",
		},
		{input(`"name":"IN","shape":[2],"data":[1,2]`), "Unable to parse 'datatype': attempt to access non-existing object member 'datatype'"},
		{input(`"shape":[2],"datatype":"FP32","data":[1,2]`), "Unable to parse 'name': attempt to access non-existing object member 'name'"},
		{input(`"name":"IN","datatype":"FP32","data":[1,2]`), "Unable to parse 'shape': attempt to access non-existing object member 'shape'"},
		{input(`"name":"IN","shape":[2],"datatype":5,"data":[1,2]`), "Unable to parse 'datatype': attempt to access JSON non-string as string"},
		{
			input(`"name":"IN","shape":[-1],"datatype":"FP32","data":[1,2]`),
			"Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
		},
		{
			input(`"name":"IN","shape":[1e3],"datatype":"FP32","data":[1,2]`),
			"Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
		},
		{
			input(`"name":"IN","shape":["a"],"datatype":"FP32","data":[1,2]`),
			"Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
		},
		{input(`"name":"IN","shape":2,"datatype":"FP32","data":[1,2]`), "Unable to parse 'shape': attempt to access JSON non-array as array"},
		{dt("FP99", "[1,2]"), "invalid datatype for input IN"},
		{dt("FP16", "[1,2]"), "receiving FP16 data via JSON is not supported. Please use the binary data format for input IN"},
		{dt("BF16", "[1,2]"), "receiving BF16 data via JSON is not supported. Please use the binary data format for input IN"},
		{dt("FP32", "1"), "Unable to parse 'data': attempt to access JSON non-array as array"},
		{dt("FP32", "null"), "Unable to parse 'data': attempt to access JSON non-array as array"},
		{dt("FP32", "{}"), "Unable to parse 'data': attempt to access JSON non-array as array"},
		{dt("FP32", "[1,2,3]"), "Unable to parse 'data': Shape does not match true shape of 'data' field"},
		{dt("FP32", "[1]"), "Unable to parse 'data': Shape does not match true shape of 'data' field"},
		{dt("FP32", "[]"), "Unable to parse 'data': Shape does not match true shape of 'data' field"},
		{dt("FP32", `[1,"a"]`), "Unable to parse 'data': attempt to access JSON non-number as double"},
		{dt("FP32", `[1,null]`), "Unable to parse 'data': attempt to access JSON non-number as double"},
		{dt("FP32", `[1,{}]`), "Unable to parse 'data': attempt to access JSON non-number as double"},
		{dt("FP32", `[1,true]`), "Unable to parse 'data': attempt to access JSON non-number as double"},
		{dt("FP32", `[1,1e999]`), "failed to parse the request JSON buffer: Number too big to be stored in double. at 64"},
		{dt("INT8", "[1.5,2]"), "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"},
		{dt("INT8", "[1.0,2]"), "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"},
		{dt("INT8", "[9223372036854775808,2]"), "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"},
		{dt("INT64", "[NaN,2]"), "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"},
		{dt("UINT8", "[-1,2]"), "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer"},
		{dt("UINT64", "[18446744073709551616,2]"), "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer"},
		{dt("BOOL", "[1,0]"), "Unable to parse 'data': attempt to access JSON non-boolean as boolean"},
		{dt("BYTES", "[1,2]"), "Unable to parse JSON bytes array: attempt to access JSON non-string as string"},
		{dt("BYTES", `["a",null]`), "Unable to parse JSON bytes array: attempt to access JSON non-string as string"},
		{dt("FP32", strings.Repeat("[", 101)), "JSON nesting depth exceeds maximum allowed limit (100)"},
		{dt("FP32", "["), "failed to parse the request JSON buffer: Invalid value. at 62"},
		{
			`{"inputs":[{"name":"IN","shape":[1099511627776],"datatype":"FP32","data":[1]}]}`,
			"JSON input 'IN' has a byte_size (4398046511104 bytes) that exceeds the maximum allowed value of 1048576 bytes. Use " +
				"--http-max-input-size to increase the limit.",
		},
		{
			`{"inputs":[{"name":"IN","shape":[100000],"datatype":"FP32","data":[1]}]}`,
			"Unable to parse 'data': Shape does not match true shape of 'data' field",
		},
		{
			`{"inputs":[{"name":"IN","shape":[6148914691236517206,3],"datatype":"FP32","data":[1]}]}`,
			"invalid shape for input 'IN': shape [6148914691236517206,3] causes total element count to exceed maximum size of 9223372036854775807",
		},
		{
			`{"inputs":[{"name":"IN","shape":[4611686018427387904],"datatype":"FP32","parameters":{"binary_data_size":0}}]}`,
			"byte size overflow for input 'IN': element count (4611686018427387904) * data type size (4) exceeds maximum allowed size " +
				"(9223372036854775807)",
		},
		{
			`{"inputs":[{"name":"IN","shape":[18446744073709551615],"datatype":"FP32","data":[1]}]}`,
			"invalid shape for input 'IN': shape [9223372036854775807] causes total element count to exceed maximum size of 9223372036854775807",
		},
		{outputs(`5`), "Unable to parse 'outputs': attempt to access JSON non-array as array"},
		{outputs(`[1]`), "Unable to parse 'name': attempt to access non-existing object member 'name'"},
		{outputs(`[{}]`), "Unable to parse 'name': attempt to access non-existing object member 'name'"},
		{outputs(`[{"name":5}]`), "Unable to parse 'name': attempt to access JSON non-string as string"},
		{outputs(`[{"name":"QQ"}]`), "unexpected inference output 'QQ' for model 'm'"},
		{
			outputs(`[{"name":"OIN","parameters":{"binary_data":1}}]`),
			"Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean",
		},
		{
			outputs(`[{"parameters":{"binary_data":null},"name":"OIN"}]`),
			"Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean",
		},
		{
			outputs(`[{"name":"OIN","parameters":{"classification":-1}}]`),
			"Unable to set 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer",
		},
		{
			outputs(`[{"name":"OIN","parameters":{"classification":1.5}}]`),
			"Unable to set 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer",
		},
		{outputs(`[{"name":"OIN","parameters":{"shared_memory_region":"r"}}]`), "Unable to find shared memory region: 'r'"},
		{
			outputs(`[{"name":"OIN","parameters":{"shared_memory_region":"r","classification":1}}]`),
			"Output can't set both 'shared_memory_region' and 'classification'",
		},
		{
			outputs(`[{"name":"OIN","parameters":{"shared_memory_region":"r","binary_data":true}}]`),
			"Output can't set both 'shared_memory_region' and 'binary_data'",
		},
		{params(`1`), "failed to get request params.: attempt to get members for non-object"},
		{params(`{"sequence_id":1.5}`), "Unable to parse 'sequence_id': attempt to access JSON non-string as string"},
		{params(`{"sequence_id":null}`), "Unable to parse 'sequence_id': attempt to access JSON non-string as string"},
		{params(`{"sequence_id":"` + strings.Repeat("a", 129) + `"}`), "string correlation ID cannot be longer than 128 characters"},
		{params(`{"sequence_start":1}`), "Unable to parse 'sequence_start': attempt to access JSON non-boolean as boolean"},
		{params(`{"priority":-1}`), "Unable to parse 'priority': attempt to access JSON non-unsigned-integer as unsigned-integer"},
		{params(`{"timeout":[]}`), "Unable to parse 'timeout': attempt to access JSON non-unsigned-integer as unsigned-integer"},
		{params(`{"binary_data_output":"x"}`), "Unable to parse 'binary_data_output': attempt to access JSON non-boolean as boolean"},
		{params(`{"b":null}`), "parameter 'b' has invalid type. It should be either 'int', 'bool', or 'string'."},
		{params(`{"triton_x":null}`), "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."},
		{`{"id":1,"inputs":[]}`, "Unable to parse 'id': attempt to access JSON non-string as string"},
		{`{"id":null,"inputs":[]}`, "Unable to parse 'id': attempt to access JSON non-string as string"},
		{`{"inputs":[]} x`, "failed to parse the request JSON buffer: The document root must not be followed by other values. at 14"},
	} {
		_, _, err := decode(t, testConfig(tensor.FP32, "IN"), c.body, nil, nil, 0)
		var e *backend.Error
		if !errors.As(err, &e) || e.Message != c.want {
			t.Errorf("%.100s:\n got %v\nwant %s", c.body, err, c.want)
		}
	}
}

func floats(v ...float32) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func TestDecodeData(t *testing.T) {
	inf := float32(math.Inf(1))
	var e tensorBytes
	for _, c := range []struct {
		d, shape, data string
		want           []byte
	}{
		{"FP32", "[2,3]", "[[1,2,3],[4,5,6]]", floats(1, 2, 3, 4, 5, 6)},
		{"FP32", "[2,3]", " [ [[1 , 2\n,3]],[ ],[4,[5],6] ] ", floats(1, 2, 3, 4, 5, 6)},
		{"FP32", "[3]", "[-Infinity,Inf,1e40]", floats(-inf, inf, inf)},
		{"FP32", "[2]", "[1e-50,0.1]", floats(0, 0.1)},
		{"FP32", "[]", "[7]", floats(7)}, // of a scalar
		{"FP32", "[]", "[7,8]", nil},     // the model will refuse the shape
		{"FP32", "[]", "5", nil},
		{"FP32", "[0]", "[1,2]", nil},
		{"FP32", "[0]", "5", nil},
		{"FP64", "[1]", "[0.1]", binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.1))},
		{"INT8", "[2]", "[300,-200]", []byte{44, 56}},
		{"UINT8", "[2]", "[300,255]", []byte{44, 255}},
		{"INT16", "[2]", "[-1, 70000]", []byte{255, 255, 0x70, 0x11}},
		{"UINT32", "[1]", "[4294967295]", []byte{255, 255, 255, 255}},
		{"INT64", "[1]", "[-9223372036854775808]", []byte{0, 0, 0, 0, 0, 0, 0, 128}},
		{"UINT64", "[1]", "[18446744073709551615]", []byte{255, 255, 255, 255, 255, 255, 255, 255}},
		{"BOOL", "[2]", "[true,[false]]", []byte{1, 0}},
		{"BYTES", "[2]", `["a","\u00e9\ud83d\ude00"]`, e.of("a", "é😀")},
		{"BYTES", "[2]", `[["","x"]]`, e.of("", "x")},
	} {
		for _, order := range []string{"nsdD", "Ddsn", "nDsd", "sdDn"} {
			members := map[rune]string{'n': `"name":"IN"`, 's': `"shape":` + c.shape, 'd': `"datatype":"` + c.d + `"`, 'D': `"data":` + c.data}
			var parts []string
			for _, m := range order {
				parts = append(parts, members[m])
			}
			body := `{"inputs":[{` + strings.Join(parts, ",") + `}]}`
			cfg := testConfig(tensor.LookupDatatype(c.d), "IN")
			if c.shape == "[]" && c.want != nil {
				cfg.Inputs[0].Dims = nil
			}
			r, _, err := decode(t, cfg, body, nil, nil, 0)
			if err != nil {
				t.Errorf("%s: %v", body, err)
				continue
			}
			in := r.Inputs[0]
			if !bytes.Equal(in.Data, c.want) || in.Name != "IN" || in.Datatype.String() != c.d || in.Shape.String() != c.shape {
				t.Errorf("%s: got %s %s %s %x, want %x", body, in.Name, in.Datatype, in.Shape, in.Data, c.want)
			}
		}
	}
}

type tensorBytes struct{}

func (tensorBytes) of(elements ...string) []byte {
	var b []byte
	for _, e := range elements {
		b = tensor.AppendElement(b, e)
	}
	return b
}

func TestDecodeBinaryTail(t *testing.T) {
	cfg := testConfig(tensor.FP32, "A", "B", "C")
	head := `{"inputs":[{"name":"B","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},` +
		`{"name":"C","shape":[1],"datatype":"FP32","data":[3]},{"name":"A","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]}`
	tail := floats(1, 2, 4)
	for split := range len(tail) + 1 { // read already, and still to come
		r, _, err := decode(t, cfg, head, tail[:split], bytes.NewReader(tail[split:]), len(tail)-split)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]byte{floats(1, 2), floats(3), floats(4)} {
			if !bytes.Equal(r.Inputs[i].Data, want) {
				t.Errorf("split %d, input %d: got %x, want %x", split, i, r.Inputs[i].Data, want)
			}
		}
	}
	if _, _, err := decode(t, cfg, head, append(tail, 0), nil, 0); err == nil ||
		err.Error() != "unexpected additional input data for model 'm'" {
		t.Errorf("a byte too many: %v", err)
	}
	if _, _, err := decode(t, cfg, head, tail[:11], nil, 0); err == nil ||
		err.Error() != "unexpected size for input 'A', expecting 1 additional bytes for model 'm'" {
		t.Errorf("a byte too few: %v", err)
	}
	//nolint:errorlint // as the reader gave it
	if _, _, err := decode(t, cfg, head, tail[:5], bytes.NewReader(tail[5:9]), 7); err != io.ErrUnexpectedEOF {
		t.Errorf("body cut off: %v", err)
	}
}

func TestDecodeOutputTwice(t *testing.T) {
	const want = "[request id: q] output 'OX' already exists in request"
	_, _, err := decode(t, testConfig(tensor.FP32, "IN", "X"),
		`{"id":"q","inputs":[{`+std+`,"data":[1,2]}],"outputs":[{"name":"OX"},{"name":"OIN"},{"name":"OX"}]}`, nil, nil, 0)
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDecodeMeaning(t *testing.T) {
	r, c, err := decode(t, testConfig(tensor.FP32, "IN", "X"),
		`{"id":"q","id":"other","parameters":{"sequence_id":18446744073709551615,"sequence_start":true,"sequence_end":true,"priority":2,"timeout":5,
		"binary_data_output":true,"s":"x","i":-3,"big":9223372036854775808,"d":1.5,"b":false,"":"empty"},
		"inputs":[{`+std+`,"data":[1,2]}],"outputs":[{"name":"OX","parameters":{"binary_data":true}},{"name":"OIN",`+
			`"parameters":{"classification":3}}],"unknown":[{}]}`, nil, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r.ID != "q" || r.Correlation != (backend.CorrelationID{Number: math.MaxUint64}) ||
		r.Flags != backend.SequenceStart|backend.SequenceEnd || r.Priority != 2 || r.Timeout != 5 {
		t.Errorf("got %+v", r)
	}
	want := []backend.Parameter{
		backend.String("s", "x"), backend.Int("i", -3), backend.Double("big", 9223372036854775808),
		backend.Double("d", 1.5), backend.Bool("b", false), backend.String("", "empty"),
	}
	if len(r.Parameters) != len(want) {
		t.Fatalf("parameters %+v", r.Parameters)
	}
	for i := range want {
		if r.Parameters[i] != want[i] {
			t.Errorf("parameter %d: got %+v, want %+v", i, r.Parameters[i], want[i])
		}
	}
	if len(r.Requested) != 2 || r.Requested[0] != "OX" || r.Requested[1] != "OIN" || !c.Output("OX").Binary || c.Output("OIN").Classes != 3 ||
		c.Output("OIN").Binary || !c.BinaryDefault {
		t.Errorf("outputs %v %+v", r.Requested, c)
	}
}

// FuzzDecode feeds arbitrary heads and tails. What is accepted must be what
// encoding/json reads out of the same text.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"inputs":[{`+std+`,"data":[1,2]}]}`), []byte(nil))
	f.Add([]byte(`{"inputs":[{`+std+`,"parameters":{"binary_data_size":8}}]}`), floats(1, 2))
	f.Add([]byte(`{"inputs":[{"name":"IN","shape":[2],"datatype":"INT64","data":[[1],2]}],"outputs":[{"name":"OIN"}]}`), []byte(nil))
	f.Add([]byte(`{"inputs":[{"name":"IN","shape":[1],"datatype":"BYTES","data":["\u00e9"]}],"id":"a","parameters":{"timeout":1}}`),
		[]byte(nil))
	cfg := testConfig(tensor.FP32, "IN")
	f.Fuzz(func(t *testing.T, head, tail []byte) {
		r, _, err := decode(t, cfg, string(head), tail, nil, 0)
		if err != nil {
			return
		}
		var twin struct {
			ID     string
			Inputs []struct {
				Name, Datatype string
				Shape          []json.Number
				Data           any
			}
		}
		dec := json.NewDecoder(bytes.NewReader(head))
		dec.UseNumber()
		if dec.Decode(&twin) != nil || len(twin.Inputs) != len(r.Inputs) {
			return // NaN, duplicate members, other letter case: only this parser takes them so
		}
		for i := range twin.Inputs {
			in, got := &twin.Inputs[i], &r.Inputs[i]
			if in.Datatype != "FP32" || got.Datatype != tensor.FP32 || len(got.Data) == 0 || in.Data == nil || in.Name != got.Name {
				continue
			}
			var want []byte
			flatten(in.Data, &want)
			if len(want) == len(got.Data) && !bytes.Equal(want, got.Data) {
				t.Errorf("%s: got %x, want %x", head, got.Data, want)
			}
		}
	})
}

func flatten(v any, to *[]byte) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			flatten(e, to)
		}
	case json.Number:
		f, _ := strconv.ParseFloat(string(v), 32)
		if f == 0 && !strings.ContainsAny(string(v), ".eE") {
			f = 0
		}
		*to = append(*to, floats(float32(f))...)
	}
}
