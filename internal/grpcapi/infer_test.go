package grpcapi

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/nesoserve/neso/backend"
	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/nesotest"
)

type (
	inputTensor  = pb.ModelInferRequest_InferInputTensor
	outputTensor = pb.ModelInferResponse_InferOutputTensor
	typed        = pb.InferTensorContents
)

func TestModelInfer(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	large := bytes.Repeat([]byte{1, 2, 3, 4}, 300_000)
	tests := []struct {
		name    string
		request *pb.ModelInferRequest
		version string
		raw     []byte
	}{
		{"raw", request("int32", "", 1, -2), "1", []byte{1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff}},
		{"latest version, id", &pb.ModelInferRequest{
			ModelName: "fp32", Id: "größe",
			Inputs:           []*inputTensor{{Name: "IN", Datatype: "FP32", Shape: []int64{1}}},
			RawInputContents: [][]byte{{0, 0, 0x80, 0x3f}},
		}, "3", []byte{0, 0, 0x80, 0x3f}},
		{"one version, typed", &pb.ModelInferRequest{
			ModelName: "fp32", ModelVersion: "3",
			Inputs: []*inputTensor{{Name: "IN", Datatype: "FP32", Shape: []int64{2}, Contents: &typed{Fp32Contents: []float32{1, 2}}}},
		}, "3", []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}},
		{"text", &pb.ModelInferRequest{
			ModelName: "text",
			Inputs: []*inputTensor{{
				Name: "IN", Datatype: "BYTES", Shape: []int64{2},
				Contents: &typed{BytesContents: [][]byte{[]byte("ab"), nil}},
			}},
		}, "1", []byte("\x02\x00\x00\x00ab\x00\x00\x00\x00")},
		{"large", &pb.ModelInferRequest{
			ModelName: "int32", Inputs: []*inputTensor{{Name: "IN", Datatype: "INT32", Shape: []int64{300_000}}}, RawInputContents: [][]byte{large},
		}, "1", large},
		{"empty", &pb.ModelInferRequest{
			ModelName: "int32", Inputs: []*inputTensor{{Name: "IN", Datatype: "INT32", Shape: []int64{0}}}, RawInputContents: [][]byte{nil},
		}, "1", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := f.infer(tt.request)
			if err != nil {
				t.Fatal(err)
			}
			in := tt.request.Inputs[0]
			want := &pb.ModelInferResponse{
				ModelName: tt.request.ModelName, ModelVersion: tt.version, Id: tt.request.Id,
				Outputs:           []*outputTensor{{Name: "OUT", Datatype: in.Datatype, Shape: in.Shape}},
				RawOutputContents: [][]byte{tt.raw},
			}
			if tt.raw == nil {
				want.RawOutputContents[0] = []byte{}
			}
			if !proto.Equal(got, want) {
				got.RawOutputContents, want.RawOutputContents = nil, nil // may be long
				t.Error(cmp.Diff(want, got, protocmp.Transform()))
			}
		})
	}
}

func TestModelInferErrors(t *testing.T) {
	f := start(t, &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		switch v := first(b.Requests[0]); v {
		case 1:
			return true, backend.Errorf(backend.Unavailable, "not now")
		case 2:
			_ = b.Requests[0].Respond(value(1), false)
			_ = b.Requests[0].Respond(value(2), true)
			return true, nil
		}
		return false, nil
	}}, Options{})
	version := func(v string) *pb.ModelInferRequest {
		q := request("int32", "", 0)
		q.ModelVersion = v
		return q
	}
	tests := []struct {
		name    string
		request *pb.ModelInferRequest
		want    string
	}{
		{"unknown model", request("nope", "", 0), "NotFound: Request for unknown model: 'nope' is not found"},
		{"unknown version", version("7"), "NotFound: Request for unknown model: 'int32' version 7 is not found"},
		{"no version", version("abc"), "InvalidArgument: failed to get model version from specified version string 'abc' (details: stol), " +
			"version should be an integral value > 0"},
		{"negative version", version("-2"), "InvalidArgument: invalid model version specified '-2' , version should be an integral value > 0"},
		{"decoupled", request("many", "", 0), "Unimplemented: ModelInfer RPC doesn't support models with decoupled transaction policy"},
		{
			"parameter", with(request("int32", "", 0), "timeout", boolParam(true)),
			"InvalidArgument: invalid value type for 'timeout' parameter, expected int64_param.",
		},
		{
			"wrong size", &pb.ModelInferRequest{
				ModelName: "int32", Inputs: []*inputTensor{{Name: "IN", Datatype: "INT32", Shape: []int64{2}}},
				RawInputContents: [][]byte{{1}},
			},
			"InvalidArgument: [request id: <id_unknown>] input byte size mismatch for input 'IN' for model 'int32'. Expected 8, got 1",
		},
		{"huge shape", &pb.ModelInferRequest{
			ModelName: "int32", Inputs: []*inputTensor{{Name: "IN", Datatype: "INT32", Shape: []int64{1 << 62}}},
			RawInputContents: [][]byte{{1}},
		}, ""},
		{"model", request("int32", "", 1), "Unavailable: not now"},
		{"two responses", request("int32", "", 2), "Internal: expected a single response, got 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := f.infer(tt.request)
			if err == nil || tt.want != "" && words(err) != tt.want {
				t.Errorf("got  %s\nwant %s", words(err), tt.want)
			}
		})
	}
}

func TestMalformedMessage(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	var got pb.ModelInferResponse
	err := f.conn.Invoke(t.Context(), "/"+serviceName+"/ModelInfer", []byte{0x2a, 0x7f}, &got, grpc.ForceCodecV2(bytesCodec{newCodec()}))
	if want := "Internal: grpc: failed to unmarshal the received message: message is cut off"; words(err) != want {
		t.Errorf("got %s, want %s", words(err), want)
	}
	if _, err := f.infer(request("int32", "", 1)); err != nil {
		t.Errorf("a good request after it: %v", err)
	}
}

// bytesCodec sends bytes as they are.
type bytesCodec struct{ encoding.CodecV2 }

func (c bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func TestUnknownMethod(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	_, err := invoke[pb.ServerLiveResponse](f, "Nope", &pb.ServerLiveRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

func TestCancelReachesTheModel(t *testing.T) {
	entered, left := make(chan struct{}), make(chan struct{})
	f := start(t, &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		close(entered)
		<-b.Requests[0].Ctx.Done()
		close(left)
		return false, nil
	}}, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- f.conn.Invoke(ctx, "/"+serviceName+"/ModelInfer", request("int32", "", 1), &pb.ModelInferResponse{})
	}()
	wait(t, entered, "the model")
	cancel()
	wait(t, left, "the model's notice")
	if err := wait(t, done, "the answer"); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
}

func TestHeaderForwarding(t *testing.T) {
	var got []backend.Parameter
	f := start(t, &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		got = b.Requests[0].Parameters
		return false, nil
	}}, Options{HeaderForwardPattern: "MY_.*|timeout"})
	send := func(pairs ...string) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), pairs...)
		return f.conn.Invoke(ctx, "/"+serviceName+"/ModelInfer", request("int32", "", 1), &pb.ModelInferResponse{})
	}
	if err := send("my_b", "2", "My_a", "1", "other", "3"); err != nil {
		t.Fatal(err)
	}
	if want := []backend.Parameter{backend.String("my_a", "1"), backend.String("my_b", "2")}; !cmp.Equal(got, want,
		cmp.AllowUnexported(backend.Parameter{})) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err, want := send("timeout", "1"),
		"InvalidArgument: Header 'timeout' is reserved for Triton usage and cannot be forwarded."; words(err) != want {
		t.Errorf("got %s, want %s", words(err), want)
	}
	if _, err := New(Options{HeaderForwardPattern: "("}); err == nil {
		t.Error("a bad pattern is accepted")
	}
}

func TestAccessLines(t *testing.T) {
	var out bytes.Buffer
	settings := logging.DefaultSettings()
	settings.Verbose = 1
	log, err := logging.Open(settings, &out)
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, script(), Options{Logger: log.Logger()})
	if _, err := f.infer(request("int32", "one", 1)); err != nil {
		t.Fatal(err)
	}
	_, _ = f.infer(request("int32", "two", -1))
	refused := request("int32", "four", 1)
	refused.Inputs[0].Shape = []int64{2}
	_, _ = f.infer(refused)
	s := f.open(t.Context())
	send(t, s, request("many", "three", 2))
	lines(s)
	f.stopped() // the log is ours now
	for _, want := range []string{
		"request_id=one status=OK", "request_id=two status=NotFound", "request_id=three status=OK",
		"request_id=four status=InvalidArgument",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}

// TestRetryInfo: a refusal that knows when to try again says it as a detail that
// every gRPC library knows, and as the trailer that gRPC's own retries obey;
// another one says nothing of the kind.
func TestRetryInfo(t *testing.T) {
	var failure *backend.Error
	f := start(t, &nesotest.Echo{OnExecute: func(context.Context, backend.Config, *backend.Batch) (bool, error) {
		return false, failure
	}}, Options{})
	for _, c := range []struct {
		err     *backend.Error
		trailer string
		delay   time.Duration
	}{
		{&backend.Error{Code: backend.Unavailable, Message: "full", RetryAfter: 1500 * time.Millisecond}, "1500", 1500 * time.Millisecond},
		{&backend.Error{Code: backend.ResourceExhausted, Message: "quota", RetryAfter: time.Second}, "1000", time.Second},
		{&backend.Error{Code: backend.Unavailable, Message: "gone"}, "", 0},
	} {
		failure = c.err
		var trailer metadata.MD
		_, err := invoke[pb.ModelInferResponse](f, "ModelInfer", request("int32", "", 1), grpc.Trailer(&trailer))
		s := status.Convert(err)
		var delay time.Duration
		for _, d := range s.Details() {
			delay += d.(*errdetails.RetryInfo).RetryDelay.AsDuration()
		}
		if got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ","); got != c.trailer || delay != c.delay || s.Message() != c.err.Message {
			t.Errorf("%s: %v, trailer %q, delay %v; want %q, %v", c.err.Message, s, got, delay, c.trailer, c.delay)
		}
	}
}
