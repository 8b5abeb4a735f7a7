package protowire

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// protoMemory is an allocator that counts what has not been released.
type protoMemory struct{ live int }

func (a *protoMemory) Allocate(n int) (*tensor.Buffer, error) {
	a.live++
	return tensor.NewBuffer(make([]byte, n), a), nil
}

func (a *protoMemory) ReleaseBuffer(*tensor.Buffer) { a.live-- }

var protoConfig = &modelconfig.Config{Name: "m", Outputs: []modelconfig.Output{{Name: "y"}, {Name: "z"}, {Name: "T"}}}

type noSink struct{}

func (noSink) Deliver(*infer.Request, *backend.Response, bool) {}

// fragments cuts data into pieces of n bytes, with empty ones between them.
func fragments(data []byte, n int) mem.BufferSlice {
	if n <= 0 {
		return mem.BufferSlice{mem.SliceBuffer(data)}
	}
	var out mem.BufferSlice
	for part := range slices.Chunk(data, n) {
		out = append(out, mem.SliceBuffer(part), mem.SliceBuffer(nil))
	}
	return out
}

func boolParam(v bool) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_BoolParam{BoolParam: v}}
}

func intParam(v int64) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_Int64Param{Int64Param: v}}
}

func stringParam(v string) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_StringParam{StringParam: v}}
}

func doubleParam(v float64) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_DoubleParam{DoubleParam: v}}
}

func uintParam(v uint64) *inferencepb.InferParameter {
	return &inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_Uint64Param{Uint64Param: v}}
}

type (
	pbRequest = inferencepb.ModelInferRequest
	pbInput   = inferencepb.ModelInferRequest_InferInputTensor
	pbOutput  = inferencepb.ModelInferRequest_InferRequestedOutputTensor
	pbTyped   = inferencepb.InferTensorContents
)

// samples are requests that between them have every field.
func samples() []*pbRequest {
	return []*pbRequest{
		{},
		{
			ModelName: "m", ModelVersion: "3", Id: "größe",
			Parameters: map[string]*inferencepb.InferParameter{
				"sequence_id": intParam(-7), "sequence_start": boolParam(true), "sequence_end": boolParam(true),
				"priority": uintParam(2), "timeout": intParam(1000), "triton_enable_empty_final_response": boolParam(true),
				"a": stringParam("text"), "b": doubleParam(0.5), "c": intParam(math.MinInt64), "": boolParam(false),
			},
			Inputs: []*pbInput{
				{Name: "x", Datatype: "FP32", Shape: []int64{2, 3}, Parameters: map[string]*inferencepb.InferParameter{"k": stringParam("v")}},
				{Name: "s", Datatype: "BYTES", Shape: []int64{1}},
				{Name: "e", Datatype: "INT64", Shape: []int64{0, -1}},
			},
			Outputs: []*pbOutput{
				{Name: "y", Parameters: map[string]*inferencepb.InferParameter{"classification": intParam(2)}}, {Name: "z"},
			},
			RawInputContents: [][]byte{bytes.Repeat([]byte{1, 2, 3}, 8), []byte("\x02\x00\x00\x00hi"), nil, []byte("surplus")},
		},
		{
			ModelName: "typed",
			Inputs: []*pbInput{
				{Name: "bool", Datatype: "BOOL", Shape: []int64{3}, Contents: &pbTyped{BoolContents: []bool{true, false, true}}},
				{Name: "i8", Datatype: "INT8", Contents: &pbTyped{IntContents: []int32{-1, 300}}},
				{Name: "i16", Datatype: "INT16", Contents: &pbTyped{IntContents: []int32{-1, 70000}}},
				{Name: "i32", Datatype: "INT32", Contents: &pbTyped{IntContents: []int32{-1, math.MaxInt32}}},
				{Name: "i64", Datatype: "INT64", Contents: &pbTyped{Int64Contents: []int64{math.MinInt64, 1}}},
				{Name: "u8", Datatype: "UINT8", Contents: &pbTyped{UintContents: []uint32{255, 256}}},
				{Name: "u16", Datatype: "UINT16", Contents: &pbTyped{UintContents: []uint32{65535}}},
				{Name: "u32", Datatype: "UINT32", Contents: &pbTyped{UintContents: []uint32{math.MaxUint32}}},
				{Name: "u64", Datatype: "UINT64", Contents: &pbTyped{Uint64Contents: []uint64{math.MaxUint64}}},
				{Name: "f32", Datatype: "FP32", Contents: &pbTyped{Fp32Contents: []float32{1.5, float32(math.Inf(1))}}},
				{Name: "f64", Datatype: "FP64", Contents: &pbTyped{Fp64Contents: []float64{-2.25}}},
				{Name: "b", Datatype: "BYTES", Contents: &pbTyped{BytesContents: [][]byte{[]byte("one"), nil, []byte("three")}}},
				{Name: "none", Datatype: "FP32", Contents: &pbTyped{}},
			},
		},
	}
}

// reference is the obvious decoder: generated code, then plain conversion. It
// returns nil for a tensor whose typed contents do not fit.
func reference(t *testing.T, in *pbInput, raw []byte) []byte {
	t.Helper()
	if in.Contents == nil {
		return raw
	}
	d, c := tensor.LookupDatatype(in.Datatype), in.Contents
	b := []byte{}
	put := func(v uint64) {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], v)
		b = append(b, w[:d.Size()]...)
	}
	fits := func(want ...tensor.Datatype) bool { return slices.Contains(want, d) }
	set := 0
	wrong := false
	note := func(n int, want ...tensor.Datatype) {
		if n > 0 {
			set++
			wrong = wrong || !fits(want...)
		}
	}
	note(len(c.BoolContents), tensor.Bool)
	note(len(c.IntContents), tensor.Int8, tensor.Int16, tensor.Int32)
	note(len(c.Int64Contents), tensor.Int64)
	note(len(c.UintContents), tensor.Uint8, tensor.Uint16, tensor.Uint32)
	note(len(c.Uint64Contents), tensor.Uint64)
	note(len(c.Fp32Contents), tensor.FP32)
	note(len(c.Fp64Contents), tensor.FP64)
	note(len(c.BytesContents), tensor.Bytes)
	if wrong || set > 1 {
		return nil
	}
	for _, v := range c.BoolContents {
		b = append(b, 0)
		if v {
			b[len(b)-1] = 1
		}
	}
	for _, v := range c.IntContents {
		put(uint64(v))
	}
	for _, v := range c.Int64Contents {
		put(uint64(v))
	}
	for _, v := range c.UintContents {
		put(uint64(v))
	}
	for _, v := range c.Uint64Contents {
		put(v)
	}
	for _, v := range c.Fp32Contents {
		put(uint64(math.Float32bits(v)))
	}
	for _, v := range c.Fp64Contents {
		put(math.Float64bits(v))
	}
	for _, v := range c.BytesContents {
		b = tensor.AppendElement(b, v)
	}
	return b
}

// compareParsed checks the structure that Parse found against the generated
// message, and every tensor's bytes.
func compareParsed(t *testing.T, q *Request, want *pbRequest) {
	t.Helper()
	if q.ModelName != want.ModelName || q.ModelVersion != want.ModelVersion || q.ID != want.Id {
		t.Errorf("got model %q version %q id %q, want %q %q %q", q.ModelName, q.ModelVersion, q.ID, want.ModelName, want.ModelVersion, want.Id)
	}
	compareParameters(t, q.parameters, want.Parameters)
	if len(q.inputs) != len(want.Inputs) || len(q.outputs) != len(want.Outputs) || len(q.raw) != len(want.RawInputContents) {
		t.Fatalf("got %d inputs, %d outputs, %d raw, want %d, %d, %d", len(q.inputs), len(q.outputs), len(q.raw),
			len(want.Inputs), len(want.Outputs), len(want.RawInputContents))
	}
	for i, s := range q.raw {
		got := make([]byte, s.size)
		c := cursorAt(q.message, s)
		c.read(got)
		if !bytes.Equal(got, want.RawInputContents[i]) {
			t.Errorf("raw %d: got %x, want %x", i, got, want.RawInputContents[i])
		}
	}
	for i := range q.outputs {
		if q.outputs[i].name != want.Outputs[i].Name {
			t.Errorf("output %d: got %q, want %q", i, q.outputs[i].name, want.Outputs[i].Name)
		}
		compareParameters(t, q.outputs[i].parameters, want.Outputs[i].Parameters)
	}
	a := &protoMemory{}
	for i := range q.inputs {
		in, w := &q.inputs[i], want.Inputs[i]
		if in.name != w.Name || in.datatype != w.Datatype || !slices.Equal([]int64(in.shape), w.Shape) {
			t.Errorf("input %d: got %q %q %v, want %q %q %v", i, in.name, in.datatype, in.shape, w.Name, w.Datatype, w.Shape)
		}
		compareParameters(t, in.parameters, w.Parameters)
		if in.contents.present != (w.Contents != nil) {
			t.Fatalf("input %d: contents present %v, want %v", i, in.contents.present, w.Contents != nil)
		}
		if w.Contents == nil {
			continue
		}
		got := tensor.Tensor{Datatype: tensor.LookupDatatype(in.datatype)}
		err := q.decodeContents(&got, &in.contents, a)
		ref := reference(t, w, nil)
		if (err != nil) != (ref == nil) || !bytes.Equal(got.Data, ref) {
			t.Errorf("input %d %s: got %x (%v), want %x", i, in.datatype, got.Data, err, ref)
		}
		got.Release()
	}
	if a.live != 0 {
		t.Errorf("%d buffers are left", a.live)
	}
}

func compareParameters(t *testing.T, got []backend.Parameter, want map[string]*inferencepb.InferParameter) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d parameters %v, want %d", len(got), got, len(want))
	}
	for _, p := range got {
		w, ok := want[p.Name]
		if !ok {
			t.Errorf("parameter %q is not in the message", p.Name)
			continue
		}
		if !proto.Equal(generated(p), w) {
			t.Errorf("parameter %q: got %v, want %v", p.Name, generated(p), w)
		}
	}
}

func generated(p backend.Parameter) *inferencepb.InferParameter {
	switch p.Kind {
	case backend.BoolParameter:
		return boolParam(p.IsTrue())
	case backend.IntParameter:
		return intParam(p.Int64())
	case backend.UintParameter:
		return uintParam(p.Uint64())
	case backend.DoubleParameter:
		return doubleParam(p.Float64())
	case backend.StringParameter:
		return stringParam(p.Text())
	}
	return &inferencepb.InferParameter{}
}

func TestProtoParse(t *testing.T) {
	var q Request // reused, as the front end does
	for i, want := range samples() {
		data, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 1, 2, 7, 64} {
			if err := q.Parse(fragments(data, size)); err != nil {
				t.Fatalf("sample %d in pieces of %d: %v", i, size, err)
			}
			compareParsed(t, &q, want)
			q.Reset()
		}
	}
}

func TestProtoDecode(t *testing.T) {
	data, err := proto.Marshal(samples()[1])
	if err != nil {
		t.Fatal(err)
	}
	var q Request
	if err := q.Parse(fragments(data, 5)); err != nil {
		t.Fatal(err)
	}
	if got, want := q.InputBytes(), int64(24+6+7); got != want {
		t.Errorf("InputBytes is %d, want %d", got, want)
	}
	a, call := &protoMemory{}, &kserve.ResponseOptions{}
	r := infer.New(noSink{}, nil)
	if err := Decode(&q, &r.Request, call, kserve.Target{Config: protoConfig, Allocator: a}); err != nil {
		t.Fatal(err)
	}
	q.Reset()
	if r.ID != "größe" || r.Correlation.Number != 1<<64-7 || r.Flags != backend.SequenceStart|backend.SequenceEnd || r.Priority != 2 ||
		r.Timeout != 1000 {
		t.Errorf("got %+v", r.Request)
	}
	if len(r.Parameters) != 4 || !call.EmptyFinal {
		t.Errorf("got parameters %v, call %+v", r.Parameters, call)
	}
	if diff := cmp.Diff([]string{"y", "z"}, r.Requested); diff != "" {
		t.Error(diff)
	}
	if len(call.Outputs) != 2 || call.Outputs[0].Classes != 2 {
		t.Errorf("got outputs %+v", call.Outputs)
	}
	want := []string{"x FP32 [2,3] 24", "s BYTES [1] 6", "e INT64 [0,-1] 0"}
	for i, in := range r.Inputs {
		if got := in.Name + " " + in.Datatype.String() + " " + in.Shape.String() + " " + Version(int64(len(in.Data))); got != want[i] {
			t.Errorf("input %d: got %s, want %s", i, got, want[i])
		}
	}
	r.Discard()
	if a.live != 0 {
		t.Errorf("%d buffers are left", a.live)
	}
}

func TestProtoDecodeErrors(t *testing.T) {
	region := func(extra map[string]*inferencepb.InferParameter) map[string]*inferencepb.InferParameter {
		m := map[string]*inferencepb.InferParameter{"shared_memory_region": stringParam("r")}
		maps.Copy(m, extra)
		return m
	}
	input := func(p map[string]*inferencepb.InferParameter) *pbRequest {
		return &pbRequest{ModelName: "m", Inputs: []*pbInput{{Name: "T", Datatype: "FP32", Parameters: p}}}
	}
	output := func(p map[string]*inferencepb.InferParameter) *pbRequest {
		return &pbRequest{ModelName: "m", Outputs: []*pbOutput{{Name: "T", Parameters: p}}}
	}
	param := func(name string, p *inferencepb.InferParameter) *pbRequest {
		return &pbRequest{Parameters: map[string]*inferencepb.InferParameter{name: p}}
	}
	typed := func(datatype string, c *pbTyped) *pbRequest {
		return &pbRequest{ModelName: "m", Inputs: []*pbInput{{Name: "T", Datatype: datatype, Contents: c}}}
	}
	ints := &pbTyped{IntContents: []int32{1}}
	many := &pbRequest{}
	for range maxTensors + 1 {
		many.RawInputContents = append(many.RawInputContents, nil)
	}
	tests := []struct {
		name string
		req  *pbRequest
		want string
	}{
		{
			"sequence_id", param("sequence_id", boolParam(true)),
			"Invalid argument: invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
		},
		{
			"sequence_start", param("sequence_start", intParam(1)),
			"Invalid argument: invalid value type for 'sequence_start' parameter, expected bool_param.",
		},
		{
			"priority", param("priority", stringParam("1")),
			"Invalid argument: invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
		},
		{"priority below zero", param("priority", intParam(-1)), "Invalid argument: invalid value for 'priority', expected value >= 0."},
		{"timeout", param("timeout", uintParam(1)), "Invalid argument: invalid value type for 'timeout' parameter, expected int64_param."},
		{
			"timeout unset", param("timeout", &inferencepb.InferParameter{}),
			"Invalid argument: invalid value type for 'timeout' parameter, expected int64_param.",
		},
		{
			"empty final", param("triton_enable_empty_final_response", intParam(1)),
			"Invalid argument: invalid value type for 'triton_enable_empty_final_response' parameter, expected bool_param.",
		},
		{
			"reserved", param("triton_x", intParam(1)),
			"Invalid argument: parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with " +
				"'triton_' are allowed: triton_enable_empty_final_response",
		},
		{
			"custom", param("x", uintParam(1)),
			"Invalid argument: invalid value type for 'x' parameter, expected int64_param, bool_param, or string_param.",
		},
		{
			"custom unset", param("x", &inferencepb.InferParameter{}),
			"Invalid argument: invalid value type for 'x' parameter, expected int64_param, bool_param, or string_param.",
		},
		{
			"region type", input(map[string]*inferencepb.InferParameter{"shared_memory_region": intParam(1)}),
			"Invalid argument: invalid value type for 'shared_memory_region' parameter for tensor 'T', expected string_param.",
		},
		{
			"region without size", input(region(nil)),
			"Invalid argument: 'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'T'",
		},
		{
			"offset without region", input(map[string]*inferencepb.InferParameter{"shared_memory_offset": intParam(1)}),
			"Invalid argument: 'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor 'T'",
		},
		{
			"size without region", input(map[string]*inferencepb.InferParameter{"shared_memory_byte_size": intParam(1)}),
			"Invalid argument: 'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'T'",
		},
		{
			"size of an output without region", output(map[string]*inferencepb.InferParameter{"shared_memory_byte_size": intParam(0)}),
			"Invalid argument: 'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'T'",
		},
		{
			"size of another type without region", input(map[string]*inferencepb.InferParameter{"shared_memory_byte_size": boolParam(true)}),
			"Invalid argument: 'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'T'",
		},
		{
			"size type", input(region(map[string]*inferencepb.InferParameter{"shared_memory_byte_size": boolParam(true)})),
			"Invalid argument: invalid value type for 'shared_memory_byte_size' parameter for tensor 'T', expected int64_param.",
		},
		{
			"offset type", input(region(map[string]*inferencepb.InferParameter{
				"shared_memory_offset": uintParam(1), "shared_memory_byte_size": boolParam(true),
			})),
			"Invalid argument: invalid value type for 'shared_memory_offset' parameter for tensor 'T', expected int64_param.",
		},
		{
			"unknown region", input(region(map[string]*inferencepb.InferParameter{"shared_memory_byte_size": intParam(4)})),
			"Not found: Unable to find shared memory region: 'r'",
		},
		{
			"classification type", output(map[string]*inferencepb.InferParameter{"classification": boolParam(true)}),
			"Invalid argument: invalid value type for 'classification' parameter, expected int64_param",
		},
		{
			"classification value", output(map[string]*inferencepb.InferParameter{"classification": intParam(0)}),
			"Invalid argument: invalid value for 'classification' parameter, expected >= 0",
		},
		{"unknown output", &pbRequest{Outputs: []*pbOutput{{Name: "q"}}}, "Invalid argument: unexpected inference output 'q' for model 'm'"},
		{"no data", input(nil), "Invalid argument: unable to find data for input tensor 'T' for model 'm' in request."},
		{
			"both", &pbRequest{ModelName: "m", Inputs: []*pbInput{{Name: "T", Datatype: "INT32", Contents: ints}}, RawInputContents: [][]byte{{1}}},
			"Invalid argument: contents field must not be specified when using raw_input_contents for 'T' for model 'm'",
		},
		{
			"wrong contents", typed("FP32", ints),
			"Invalid argument: unexpected explicit tensor data for input tensor 'T' for model 'm' of type 'INT32', expected datatype 'FP32'",
		},
		{
			"half precision", typed("FP16", &pbTyped{Fp32Contents: []float32{1}}),
			"Invalid argument: unexpected explicit tensor data for input tensor 'T' for model 'm' of type 'FP32', expected datatype 'FP16'",
		},
		{
			"unknown datatype", typed("FP8", ints),
			"Invalid argument: unexpected explicit tensor data for input tensor 'T' for model 'm' of type 'INT32', expected datatype '<invalid>'",
		},
		{
			"two contents", typed("INT32", &pbTyped{IntContents: []int32{1}, Fp32Contents: []float32{1}}),
			"Invalid argument: unexpected explicit tensor data for input tensor 'T' for model 'm', binary data was already supplied.",
		},
		{"too many", many, "Invalid argument: request has too many raw_input_contents, the limit is 16384"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := proto.Marshal(tt.req)
			if err != nil {
				t.Fatal(err)
			}
			var q Request
			defer q.Reset()
			if err := q.Parse(fragments(data, 0)); err != nil {
				t.Fatal(err)
			}
			r := infer.New(noSink{}, nil)
			defer r.Discard()
			got := Decode(&q, &r.Request, &kserve.ResponseOptions{}, kserve.Target{Config: protoConfig, Allocator: &protoMemory{}})
			if got == nil {
				t.Fatalf("got no error, want %s", tt.want)
			}
			if s := got.Code.String() + ": " + got.Message; s != tt.want {
				t.Errorf("got  %s\nwant %s", s, tt.want)
			}
		})
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]int64{"": -1, "1": 1, "9223372036854775807": math.MaxInt64} {
		if got, err := ParseVersion(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"abc": "failed to get model version from specified version string 'abc' (details: stol), version should be an " +
			"integral value > 0",
		"9223372036854775808": "failed to get model version from specified version string '9223372036854775808' (details: stol), version " +
			"should be an integral value > 0",
		"-2": "invalid model version specified '-2' , version should be an integral value > 0",
	} {
		if _, err := ParseVersion(text); err == nil || err.Message != want || err.Code != backend.InvalidArg {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzProtoRequest(f *testing.F) {
	for _, s := range samples() {
		data, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(3))
	}
	f.Add([]byte{0x2a, 0x04, 0x2a, 0x02, 0x1d, 0x00}, uint8(0))
	f.Add([]byte{0xfb, 0x01, 0x0b, 0x0c, 0xfc, 0x01}, uint8(1)) // groups
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		var q Request
		defer q.Reset()
		got := q.Parse(fragments(data, int(size)))
		want := &pbRequest{}
		ref := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, want)
		if (got != nil) != (ref != nil) {
			t.Fatalf("got error %v, generated code %v", got, ref)
		}
		if got != nil || q.Fault != nil {
			return
		}
		compareParsed(t, &q, want)
		a := &protoMemory{}
		r := infer.New(noSink{}, nil)
		_ = Decode(&q, &r.Request, &kserve.ResponseOptions{}, kserve.Target{Config: protoConfig, Allocator: a})
		r.Discard()
		if a.live != 0 {
			t.Errorf("%d buffers are left", a.live)
		}
	})
}

// What a request holds of texts is told where it is more than usual.
func TestTextBytes(t *testing.T) {
	long := strings.Repeat("x", 3000)
	text := func(s string) map[string]*inferencepb.InferParameter {
		return map[string]*inferencepb.InferParameter{s: {ParameterChoice: &inferencepb.InferParameter_StringParam{StringParam: s}}}
	}
	for name, c := range map[string]struct {
		q    *inferencepb.ModelInferRequest
		want int64
	}{
		"little": {&inferencepb.ModelInferRequest{ModelName: "m", Id: long, Parameters: text("p")}, 0},
		"id":     {&inferencepb.ModelInferRequest{ModelName: "m", Id: long + long}, 6000},
		"all": {&inferencepb.ModelInferRequest{
			Id: long, Parameters: text(long),
			Inputs:  []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "a", Parameters: text(long)}},
			Outputs: []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: long, Parameters: text(long)}},
		}, 8 * 3000},
	} {
		data, err := proto.Marshal(c.q)
		if err != nil {
			t.Fatal(err)
		}
		var q Request
		if err := q.Parse(fragments(data, 0)); err != nil {
			t.Fatal(err)
		}
		if got := q.TextBytes(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
