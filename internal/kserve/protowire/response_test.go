package protowire

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/tensor"
)

// encodeCase makes a response out of a request's parts, and its generated form.
func encodeCase(q *Request, want *pbRequest, stream bool, a *protoMemory) (*Response, proto.Message) {
	resp := &inferencepb.ModelInferResponse{
		ModelName: want.ModelName, ModelVersion: want.ModelVersion, Id: want.Id, Parameters: map[string]*inferencepb.InferParameter{},
	}
	p := &Response{ModelName: q.ModelName, ModelVersion: q.ModelVersion, ID: q.ID, Stream: stream}
	for _, v := range q.parameters {
		if v.Kind != unset {
			p.Parameters = append(p.Parameters, v)
			resp.Parameters[v.Name] = generated(v)
		}
	}
	for i, in := range q.inputs {
		data := []byte{}
		if i < len(want.RawInputContents) {
			data = want.RawInputContents[i]
		}
		b, _ := a.Allocate(len(data))
		copy(b.Bytes(), data)
		d := tensor.LookupDatatype(in.datatype)
		p.Outputs = append(p.Outputs, tensor.Tensor{Name: in.name, Datatype: d, Shape: in.shape, Data: b.Bytes(), Buffer: b})
		resp.Outputs = append(resp.Outputs, &inferencepb.ModelInferResponse_InferOutputTensor{
			Name: in.name, Datatype: d.String(),
			Shape: in.shape,
		})
		resp.RawOutputContents = append(resp.RawOutputContents, data)
	}
	if !stream {
		return p, resp
	}
	p.Final, p.ErrorMessage = LastOne, q.ID
	resp.Parameters[paramFinal] = boolParam(true)
	return p, &inferencepb.ModelStreamInferResponse{ErrorMessage: q.ID, InferResponse: resp}
}

func checkEncode(t *testing.T, q *Request, req *pbRequest) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		a := &protoMemory{}
		p, want := encodeCase(q, req, stream, a)
		size, tooBig := p.Size()
		if tooBig != nil {
			t.Fatal(tooBig)
		}
		out := Encode(p)
		data := out.Materialize()
		if len(data) != size {
			t.Errorf("got %d bytes, Size says %d", len(data), size)
		}
		out.Free()
		if a.live != 0 {
			t.Errorf("%d buffers are left", a.live)
		}
		got := want.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(data, got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) && !nan(req) {
			t.Error(cmp.Diff(want, got, protocmp.Transform()))
		}
	}
}

// nan reports whether a parameter is a NaN, which equals nothing.
func nan(req *pbRequest) bool {
	for _, p := range req.Parameters {
		if math.IsNaN(p.GetDoubleParam()) {
			return true
		}
	}
	return false
}

func FuzzProtoResponse(f *testing.F) {
	big := &pbRequest{ModelName: "m", Id: "i"}
	for i, n := range []int{0, 1, copyBelow, copyBelow + 1, 5000, 3, 70000} {
		big.Inputs = append(big.Inputs, &pbInput{Name: "o", Datatype: "UINT8", Shape: []int64{int64(n)}})
		big.RawInputContents = append(big.RawInputContents, bytes.Repeat([]byte{byte(i)}, n))
	}
	for _, s := range append(samples(), big) {
		data, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var q Request
		defer q.Reset()
		want := &pbRequest{}
		if q.Parse(fragments(data, 0)) != nil || (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, want) != nil || q.Fault != nil {
			return
		}
		checkEncode(t, &q, want)
	})
}

func TestProtoResponseTooLarge(t *testing.T) {
	p := &Response{Outputs: []tensor.Tensor{{Data: make([]byte, MaxSize)}}}
	_, err := p.Size()
	if want := "Response has byte size 2147483666 which exceeds gRPC's byte size limit 2147483647."; err == nil || err.Message != want ||
		err.Code != backend.InvalidArg {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestProtoInvalidText(t *testing.T) {
	p := &Response{Stream: true, ErrorMessage: "bad \xff byte", Parameters: []backend.Parameter{backend.String("k\xfe", "v\xfd")}}
	size, _ := p.Size()
	out := Encode(p)
	defer out.Free()
	got := &inferencepb.ModelStreamInferResponse{}
	if err := proto.Unmarshal(out.Materialize(), got); err != nil {
		t.Fatal(err)
	}
	if got.ErrorMessage != "bad \uFFFD byte" || size != out.Len() {
		t.Errorf("got %q, size %d of %d", got.ErrorMessage, size, out.Len())
	}
}
