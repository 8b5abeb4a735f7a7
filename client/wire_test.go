package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/tensor"
)

// everything is a request with each thing that a request can have.
func everything() *Request {
	return &Request{
		Model: "m", Version: "3", ID: strings.Repeat("i", 200),
		Inputs: []Input{
			{Name: "a", Datatype: tensor.FP32, Shape: tensor.Shape{2, 300}, Data: bytes.Repeat([]byte{1, 2, 3, 4}, 600)},
			{Name: "b", Datatype: tensor.Int16, Shape: tensor.Shape{2}, JSON: json.RawMessage("[5, -1]")},
			{Name: "c", Datatype: tensor.Bytes, Shape: tensor.Shape{}, Region: &Region{Name: "r", Offset: 8, Size: 100}},
			{Name: "d", Datatype: tensor.Bool, Shape: tensor.Shape{0}},
			{Name: "e", Datatype: tensor.Uint8, Shape: tensor.Shape{1500}, Data: make([]byte, 1500)},
		},
		Outputs: []string{"x"}, Classes: map[string]int{"y": 3}, OutputRegions: map[string]Region{"z": {Name: "r", Size: 5}},
		Sequence: &Sequence{ID: math.MaxUint64, Start: true}, Priority: 2, Timeout: 1500 * time.Microsecond, EmptyFinal: true,
		Parameters: map[string]any{
			"text": "t", "whole": 7, "part": 0.5, "yes": true, "number": json.Number("12"), "raw": json.RawMessage(`"r"`), "big": uint64(1 << 63),
		},
	}
}

func integer(n int64) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_Int64Param{Int64Param: n}}
}

func text(s string) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_StringParam{StringParam: s}}
}

func boolean(b bool) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_BoolParam{BoolParam: b}}
}

func unsigned(n uint64) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_Uint64Param{Uint64Param: n}}
}

type parameters = map[string]*inferencepb.InferParameter

// TestEncodeProto: what goes over gRPC is the message of the protocol, and large
// tensors are the caller's memory.
func TestEncodeProto(t *testing.T) {
	q := everything()
	m, err := encodeProto(q)
	if err != nil {
		t.Fatal(err)
	}
	got := &inferencepb.ModelInferRequest{}
	if err := proto.Unmarshal(m.Materialize(), got); err != nil {
		t.Fatal(err)
	}
	region := parameters{"shared_memory_region": text("r"), "shared_memory_offset": integer(8), "shared_memory_byte_size": integer(100)}
	type wanted = inferencepb.ModelInferRequest_InferRequestedOutputTensor
	want := &inferencepb.ModelInferRequest{
		ModelName: "m", ModelVersion: "3", Id: q.ID,
		Parameters: parameters{
			"sequence_id": integer(-1), "sequence_start": boolean(true), "sequence_end": boolean(false), "priority": unsigned(2),
			"timeout": integer(1500), "triton_enable_empty_final_response": boolean(true), "text": text("t"), "whole": integer(7),
			"part": {ParameterChoice: &inferencepb.InferParameter_DoubleParam{DoubleParam: 0.5}}, "yes": boolean(true), "number": integer(12),
			"raw": text("r"), "big": unsigned(1 << 63),
		},
		Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{
			{Name: "a", Datatype: "FP32", Shape: []int64{2, 300}},
			{Name: "b", Datatype: "INT16", Shape: []int64{2}},
			{Name: "c", Datatype: "BYTES", Parameters: region},
			{Name: "d", Datatype: "BOOL", Shape: []int64{0}},
			{Name: "e", Datatype: "UINT8", Shape: []int64{1500}},
		},
		Outputs: []*wanted{
			{Name: "x"},
			{Name: "y", Parameters: parameters{"classification": integer(3)}},
			{Name: "z", Parameters: parameters{
				"shared_memory_region": text("r"), "shared_memory_offset": integer(0), "shared_memory_byte_size": integer(5),
			}},
		},
		RawInputContents: [][]byte{q.Inputs[0].Data, {5, 0, 255, 255}, {}, q.Inputs[4].Data},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	shared := 0
	for _, b := range m {
		if at := b.ReadOnlyData(); len(at) > 0 && (&at[0] == &q.Inputs[0].Data[0] || &at[0] == &q.Inputs[4].Data[0]) {
			shared++
		}
	}
	if shared != 2 {
		t.Errorf("%d of 2 tensors are sent from where they lie", shared)
	}
}

func TestEncodeJSON(t *testing.T) {
	head, tail, err := encode(everything())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(head, &got); err != nil {
		t.Fatal(err)
	}
	given := got["parameters"].(map[string]any)
	for name, want := range map[string]any{
		"sequence_id": float64(math.MaxUint64), "sequence_start": true, "sequence_end": false, "priority": 2.0, "timeout": 1500.0,
		"triton_enable_empty_final_response": true, "text": "t", "whole": 7.0, "part": 0.5, "binary_data_output": nil,
	} {
		if given[name] != want {
			t.Errorf("parameter %s: got %v, want %v", name, given[name], want)
		}
	}
	wanted, err := json.Marshal(got["outputs"])
	if want := `[{"name":"x","parameters":{"binary_data":true}},{"name":"y","parameters":{"binary_data":true,"classification":3}},` +
		`{"name":"z","parameters":{"shared_memory_byte_size":5,"shared_memory_offset":0,"shared_memory_region":"r"}}]`; err != nil ||
		string(wanted) != want {
		t.Errorf("outputs: got %s, want %s", wanted, want)
	}
	if len(tail) != 3 {
		t.Errorf("%d tensors as bytes, want 3", len(tail))
	}
}

func TestFaultyRequests(t *testing.T) {
	for name, q := range map[string]*Request{
		"a sequence with two names": {Sequence: &Sequence{ID: 1, Name: "a"}},
		"a list as a parameter":     {Parameters: map[string]any{"p": []int{1}}},
		"null as a parameter":       {Parameters: map[string]any{"p": json.RawMessage("null")}},
		"JSON that does not fit":    {Inputs: []Input{{Datatype: tensor.Int8, Shape: tensor.Shape{1}, JSON: json.RawMessage("[1000]")}}},
	} {
		if _, err := encodeProto(q); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, q := range map[string]*Request{
		"no classes":             {Classes: map[string]int{"y": 0}},
		"classes into a region":  {Classes: map[string]int{"y": 1}, OutputRegions: map[string]Region{"y": {}}},
		"a shape without values": {Inputs: []Input{Tensor[int8]{Name: "a", Shape: tensor.Shape{3}}.Input()}},
	} {
		if err := q.check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func response() *inferencepb.ModelInferResponse {
	return &inferencepb.ModelInferResponse{
		ModelName: "m", ModelVersion: "1", Id: "i", Parameters: parameters{"triton_final_response": boolean(true), "n": integer(-3)},
		Outputs: []*inferencepb.ModelInferResponse_InferOutputTensor{
			{Name: "x", Datatype: "FP16", Shape: []int64{2}}, {Name: "y", Datatype: "BYTES", Shape: []int64{1, 1}},
		},
		RawOutputContents: [][]byte{{0, 60, 0, 192}, tensor.AppendElement(nil, "hi")},
	}
}

func TestDecodeProto(t *testing.T) {
	b, err := proto.Marshal(response())
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeProto(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Response{
		Model: "m", Version: "1", ID: "i", Final: true, Parameters: map[string]any{"triton_final_response": true, "n": int64(-3)},
		Outputs: []Output{
			{Name: "x", Datatype: tensor.FP16, Shape: tensor.Shape{2}, Data: []byte{0, 60, 0, 192}},
			{Name: "y", Datatype: tensor.Bytes, Shape: tensor.Shape{1, 1}, Data: tensor.AppendElement(nil, "hi")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if at := bytes.Index(b, []byte{0, 60, 0, 192}); &b[at] != &got.Outputs[0].Data[0] {
		t.Error("an output is a copy")
	}
}

// TestDecodeContents: servers other than Triton give elements one by one.
func TestDecodeContents(t *testing.T) {
	type contents = inferencepb.InferTensorContents
	for _, c := range []struct {
		d    tensor.Datatype
		c    *contents
		want []byte
	}{
		{tensor.Int8, &contents{IntContents: []int32{-1, 2}}, []byte{255, 2}},
		{tensor.Uint16, &contents{UintContents: []uint32{1, 513}}, []byte{1, 0, 1, 2}},
		{tensor.FP32, &contents{Fp32Contents: []float32{1, -2}}, []byte{0, 0, 128, 63, 0, 0, 0, 192}},
		{tensor.Bool, &contents{BoolContents: []bool{true, false}}, []byte{1, 0}},
		{tensor.Bytes, &contents{BytesContents: [][]byte{{'a'}, nil}}, []byte{1, 0, 0, 0, 'a', 0, 0, 0, 0}},
		{tensor.Int64, &contents{Int64Contents: []int64{1}}, nil}, // one element too few
	} {
		b, err := proto.Marshal(&inferencepb.ModelInferResponse{Outputs: []*inferencepb.ModelInferResponse_InferOutputTensor{
			{Name: "x", Datatype: c.d.String(), Shape: []int64{2}, Contents: c.c},
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeProto(b, nil)
		if (err != nil) != (c.want == nil) || err == nil && !bytes.Equal(got.Outputs[0].Data, c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.d, got, err, c.want)
		}
	}
}

func TestDecodeStreamed(t *testing.T) {
	b, err := proto.Marshal(&inferencepb.ModelStreamInferResponse{
		ErrorMessage: "no", InferResponse: &inferencepb.ModelInferResponse{Id: "7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = decodeStreamed(b, nil)
	var fault *Error
	if !errors.As(err, &fault) || fault.RequestID != "7" || err.Error() != "no" || !goesOn(err) {
		t.Errorf("got %v", err)
	}
}

// TestHostileAnswers: what a server says is held against what it sends.
func TestHostileAnswers(t *testing.T) {
	output := func(datatype string, shape []int64, raw ...[]byte) []byte {
		b, err := proto.Marshal(&inferencepb.ModelInferResponse{
			Outputs:           []*inferencepb.ModelInferResponse_InferOutputTensor{{Name: "x", Datatype: datatype, Shape: shape}},
			RawOutputContents: raw,
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"a shape beyond all":   {output("FP32", []int64{1 << 62, 4}, []byte{0}), "exceeds"},
		"a negative shape":     {output("FP32", []int64{-4}, []byte{0}), "not specified"},
		"too few bytes":        {output("FP32", []int64{4}, make([]byte, 15)), "expected 16 bytes for FP32 of shape [4], got 15"},
		"too many":             {output("INT8", []int64{4}, make([]byte, 5)), "expected 4 bytes"},
		"texts that end early": {output("BYTES", []int64{1}, []byte{9, 0, 0, 0, 'a'}), "incomplete string"},
		"too few texts":        {output("BYTES", []int64{1 << 40}, []byte{0, 0, 0, 0}), "expected 1099511627776 elements"},
		"a datatype":           {output("FP8", []int64{1}, []byte{0}), `unknown datatype "FP8"`},
		"no datatype":          {output("", []int64{1}, []byte{0}), "no datatype"},
		"contents":             {output("INT8", []int64{1}, []byte{0}, []byte{0}), "1 outputs with 2 contents"},
		"not a message":        {[]byte{0xff}, "no message"},
		"a length":             {protowire.AppendVarint([]byte{responseOutputs<<3 | 2}, 1<<60), "no message"},
	} {
		if _, err := decodeProto(c.b, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	for body, want := range map[string]string{
		`{"outputs":[{"name":"x","datatype":"FP32","shape":[4],"parameters":{"binary_data_size":99}}]}`: "0 are left",
		`{"outputs":[{"name":"x","datatype":"FP32","shape":[4],"parameters":{"binary_data_size":-1}}]}`: "expected its bytes",
		`{"outputs":[{"name":"x","datatype":"FP32","shape":[9],"parameters":{"binary_data_size":0}}]}`:  "expected 36 bytes",
		`{"outputs":[{"name":"x","datatype":"INT8","shape":[9223372036854775807],"data":[1]}]}`:         "expected 9223372036854775807",
		`{"outputs":[{"name":"x","datatype":"INT8","shape":[4294967296,4294967296],"data":[1]}]}`:       "exceeds",
		`{"outputs":[{"name":"x","datatype":"FP8","shape":[1],"data":[1]}]}`:                            "FP8",
		`[]`: "JSON",
	} {
		if _, err := decode([]byte(body), "", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
	for _, length := range []string{"-1", "3", "9999999999999999999999", "x"} {
		if _, err := decode([]byte("{}"), length, nil); err == nil {
			t.Errorf("a head of %s bytes: no error", length)
		}
	}
	if _, err := decode([]byte("{}more"), "2", nil); err == nil {
		t.Error("bytes behind the outputs: no error")
	}
}

func FuzzDecodeJSON(f *testing.F) {
	f.Add([]byte(`{"model_name":"m","outputs":[{"name":"x","datatype":"INT8","shape":[2],"parameters":{"binary_data_size":2}}]}ab`), "109")
	f.Add([]byte(`{"outputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1.5]}]}`), "")
	f.Fuzz(func(t *testing.T, answer []byte, length string) {
		if r, err := decode(answer, length, nil); err == nil {
			checkAll(t, r)
		}
	})
}

// FuzzDecodeProto holds the decoder against the generated one.
func FuzzDecodeProto(f *testing.F) {
	b, err := proto.Marshal(response())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeProto(b, nil)
		if err != nil {
			return
		}
		checkAll(t, r)
		m := &inferencepb.ModelInferResponse{}
		if proto.Unmarshal(b, m) != nil {
			return // it is stricter: texts are UTF-8, fields have their types
		}
		if r.Model != m.GetModelName() || r.ID != m.GetId() || len(r.Outputs) != len(m.GetOutputs()) ||
			len(r.Parameters) != len(m.GetParameters()) {
			t.Fatalf("got %+v, want %v", r, m)
		}
		for i, o := range m.GetOutputs() {
			got := &r.Outputs[i]
			if got.Name != o.GetName() || got.Datatype.String() != o.GetDatatype() || !slices.Equal(got.Shape, o.GetShape()) {
				t.Fatalf("got %+v, want %v", got, o)
			}
			if raw := m.GetRawOutputContents(); len(raw) > 0 && !bytes.Equal(raw[i], r.Outputs[i].Data) {
				t.Fatalf("got %x, want %x", r.Outputs[i].Data, raw[i])
			}
		}
	})
}

func checkAll(t *testing.T, r *Response) {
	t.Helper()
	for i := range r.Outputs {
		if err := checkOutput(&r.Outputs[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNamesStandInPaths: what a path can have as it is arrives so, anything else escaped.
func TestNamesStandInPaths(t *testing.T) {
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { path = r.URL.EscapedPath() }))
	defer server.Close()
	c := New(server.URL)
	defer c.Close()
	names := map[string]string{"plain-1.0": "plain-1.0", "it's!$&(a)*+,;=:@~": "it's!$&(a)*+,;=:@~", "a b/%2A": "a%20b%2F%252A"}
	for name, want := range names {
		if _, err := c.ModelReady(t.Context(), name, "1"); err != nil {
			t.Fatal(err)
		}
		if want = "/v2/models/" + want + "/versions/1/ready"; path != want {
			t.Errorf("%q: got %s, want %s", name, path, want)
		}
	}
}
