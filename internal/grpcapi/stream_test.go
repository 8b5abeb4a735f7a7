package grpcapi

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/backend"
	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

type clientStream = grpc.GenericClientStream[pb.ModelInferRequest, pb.ModelStreamInferResponse]

// open opens a stream.
func (f *fixture) open(ctx context.Context) *clientStream {
	f.t.Helper()
	s, err := f.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+serviceName+"/ModelStreamInfer")
	if err != nil {
		f.t.Fatal(err)
	}
	return &clientStream{ClientStream: s}
}

// send sends requests and half-closes the stream.
func send(t *testing.T, s *clientStream, requests ...*pb.ModelInferRequest) {
	t.Helper()
	for _, q := range requests {
		if err := s.Send(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
}

// lines reads a stream to its end, a line for each message and one for the end.
func lines(s *clientStream) (all []string) {
	for {
		p, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return append(all, "OK")
		}
		if err != nil {
			return append(all, words(err))
		}
		all = append(all, line(p))
	}
}

// line writes a response down: what is set, in short.
func line(p *pb.ModelStreamInferResponse) string {
	r := p.GetInferResponse()
	var b []string
	add := func(name, v string) {
		if v != "" {
			b = append(b, name+"="+v)
		}
	}
	add("id", r.GetId())
	add("model", r.GetModelName())
	add("version", r.GetModelVersion())
	for _, raw := range r.GetRawOutputContents() {
		add("value", strconv.Itoa(int(raw[0])))
	}
	if v := r.GetParameters()["triton_final_response"]; v != nil {
		add("final", strconv.FormatBool(v.GetBoolParam()))
	}
	add("error", p.GetErrorMessage())
	return strings.Join(b, " ")
}

// script is a backend that answers by the first value of the input: n responses
// for n > 0, then for a decoupled model the final mark alone; values below 0
// are errors.
func script() *nesotest.Echo {
	return &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, b *backend.Batch) (bool, error) {
		for _, r := range b.Requests {
			v := first(r)
			switch {
			case v < 0:
				_ = r.Respond(&backend.Response{Err: backend.Errorf(backend.NotFound, "no %d", v)}, true)
			case !cfg.Decoupled:
				_ = r.Respond(value(v), true)
			default:
				for i := range v {
					_ = r.Respond(value(i), false)
				}
				_ = r.Respond(nil, true)
			}
		}
		return true, nil
	}}
}

func TestStream(t *testing.T) {
	f := start(t, script(), Options{})
	asked := func(q *pb.ModelInferRequest) *pb.ModelInferRequest {
		q.ModelVersion = "1"
		return q
	}
	tests := []struct {
		name     string
		metadata []string
		requests []*pb.ModelInferRequest
		want     []string
	}{
		{"nothing", nil, nil, []string{"OK"}},
		{"ordinary", nil, []*pb.ModelInferRequest{request("int32", "a", 5), request("int32", "b", 6)}, []string{
			"id=a model=int32 version=1 value=5 final=true", "id=b model=int32 version=1 value=6 final=true", "OK",
		}},
		{"decoupled", nil, []*pb.ModelInferRequest{request("many", "a", 2)}, []string{
			"id=a model=many version=1 value=0 final=false", "id=a model=many version=1 value=1 final=false", "OK",
		}},
		{
			"empty final", nil,
			[]*pb.ModelInferRequest{with(request("many", "a", 1), "triton_enable_empty_final_response", boolParam(true))},
			[]string{
				"id=a model=many version=1 value=0 final=false", "id=a model=many final=true", "OK",
			},
		},
		{"empty final only, version asked", nil, []*pb.ModelInferRequest{asked(with(request("many", "a", 0), "triton_enable_empty_final_response",
			boolParam(true)))}, []string{
			"id=a model=many version=1 final=true", "OK",
		}},
		{"errors", nil, []*pb.ModelInferRequest{
			request("nope", "a", 1), request("int32", "b", -1), asked(request("int32", "c", -2)),
			request("many", "", -3), request("int32", "e", 1),
		}, nil},
		{"errors as status", []string{errorMode, "true"}, []*pb.ModelInferRequest{
			request("nope", "a", 1), request("int32", "b", 2),
			request("int32", "c", -1),
		}, []string{
			"id=a error=Request for unknown model: 'nope' is not found", "id=b model=int32 version=1 value=2 final=true", "NotFound: no -1",
		}},
		{"not quite errors as status", []string{errorMode, "True"}, []*pb.ModelInferRequest{request("int32", "c", -1)}, []string{
			"id=c model=int32 final=true error=no -1", "OK",
		}},
		{"refused by the core", nil, []*pb.ModelInferRequest{{ModelName: "int32", Id: "x"}}, []string{
			"id=x error=[request id: x] expected 1 inputs but got 0 inputs for model 'int32'. Got input(s) [], but missing required input(s) " +
				"['IN']. Please provide all required input(s).", "OK",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := f.open(metadata.AppendToOutgoingContext(t.Context(), tt.metadata...))
			send(t, s, tt.requests...)
			got := lines(s)
			if tt.want == nil { // the decoupled one may come anywhere
				var ordered []string
				for _, l := range got {
					if !strings.Contains(l, "model=many") {
						ordered = append(ordered, l)
					} else if l != "model=many final=true error=no -3" {
						t.Errorf("got %s", l)
					}
				}
				got, tt.want = ordered, []string{
					"id=a error=Request for unknown model: 'nope' is not found",
					"id=b model=int32 final=true error=no -1",
					"id=c model=int32 version=1 final=true error=no -2",
					"id=e model=int32 version=1 value=1 final=true", "OK",
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Requests run at once on several instances, and answers still leave in order;
// a decoupled model's do not wait for them.
func TestStreamOrder(t *testing.T) {
	gates := [4]chan struct{}{}
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	entered := make(chan int32, 4)
	f := start(t, &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, b *backend.Batch) (bool, error) {
		r := b.Requests[0]
		if cfg.Decoupled {
			_ = r.Respond(value(9), true)
			return true, nil
		}
		entered <- first(r)
		<-gates[first(r)]
		return false, nil
	}}, Options{})
	s := f.open(t.Context())
	send(t, s, request("wide", "0", 0), request("wide", "1", 1), request("wide", "2", 2), request("wide", "3", 3), request("many", "m", 0))
	for range gates {
		wait(t, entered, "all instances to run")
	}
	p, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := line(p), "id=m model=many version=1 value=9 final=true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for i := range gates {
		close(gates[len(gates)-1-i])
	}
	for i := range gates {
		p, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.InferResponse.Id, strconv.Itoa(i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A model with one instance sees the requests of a stream in their order.
func TestStreamKeepsRequestOrder(t *testing.T) {
	var seen []int32
	f := start(t, &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		seen = append(seen, first(b.Requests[0]))
		return false, nil
	}}, Options{})
	s := f.open(t.Context())
	var want []int32
	var requests []*pb.ModelInferRequest
	for i := range int32(200) {
		want = append(want, i)
		requests = append(requests, request("int32", "", i))
	}
	send(t, s, requests...)
	if got := lines(s); len(got) != 201 {
		t.Errorf("got %d messages", len(got))
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// The requests of one stream use all instances of a model with a dynamic
// batcher: the reader does not execute the first one itself.
func TestStreamUsesAllInstances(t *testing.T) {
	for _, model := range []string{"wide", "batched"} {
		t.Run(model, func(t *testing.T) {
			const instances = 4
			var together sync.WaitGroup // ends when all instances execute at once
			together.Add(instances)
			f := start(t, &nesotest.Echo{OnExecute: func(context.Context, backend.Config, *backend.Batch) (bool, error) {
				together.Done()
				met := make(chan struct{})
				go func() {
					together.Wait()
					close(met)
				}()
				select {
				case <-met:
					return false, nil
				case <-time.After(time.Minute): // far beyond what it takes
					return false, backend.Errorf(backend.Internal, "an instance is idle")
				}
			}}, Options{})
			s := f.open(t.Context())
			for i := range int32(instances) {
				q := request(model, "", i)
				if model == "batched" {
					q.Inputs[0].Shape = []int64{1, 1}
				}
				if err := s.Send(q); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			for _, got := range lines(s) {
				if strings.Contains(got, "error") {
					t.Error(got)
				}
			}
		})
	}
}

// A client that does not read slows its model down: the number of responses
// that the server holds is bounded.
func TestStreamSlowClient(t *testing.T) {
	const size = 256 << 10
	var given atomic.Int32
	ended := make(chan struct{})
	f := start(t, &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		r := b.Requests[0]
		for range 1000 {
			if r.Cancelled() {
				break
			}
			_ = r.Respond(&backend.Response{Outputs: []tensor.Tensor{
				{Name: "OUT", Datatype: tensor.Int32, Shape: tensor.Shape{size / 4}, Data: make([]byte, size)},
			}}, false)
			given.Add(1)
		}
		_ = r.Respond(nil, true)
		close(ended)
		return true, nil
	}}, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	s := f.open(ctx)
	send(t, s, request("many", "", 1))
	for range 10 {
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	// Until the model stands still it runs ahead by what the server keeps and
	// what the transport and the sockets hold.
	for last := int32(-1); last != given.Load(); {
		last = given.Load()
		select {
		case <-ended:
			t.Fatalf("the model gave all %d responses to a client that reads none", given.Load())
		case <-time.After(200 * time.Millisecond):
		}
	}
	cancel()
	wait(t, ended, "the model to end after the cancel")
}

func TestStreamCancel(t *testing.T) {
	entered, left := make(chan struct{}), make(chan struct{})
	f := start(t, &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		close(entered)
		<-b.Requests[0].Ctx.Done()
		close(left)
		return false, nil
	}}, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	s := f.open(ctx)
	if err := s.Send(request("int32", "", 1)); err != nil {
		t.Fatal(err)
	}
	wait(t, entered, "the model")
	cancel()
	wait(t, left, "the model's notice")
	if _, err := s.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
}

// More requests than may be in flight pass through a stream.
func TestStreamManyRequests(t *testing.T) {
	f := start(t, script(), Options{})
	s := f.open(t.Context())
	const n = 3 * maxInflight
	go func() {
		for i := range int32(n) {
			if s.Send(request("wide", strconv.Itoa(int(i)), i)) != nil {
				return
			}
		}
		_ = s.CloseSend()
	}()
	for i := range n {
		p, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if p.InferResponse.Id != strconv.Itoa(i) {
			t.Fatalf("got id %s, want %d", p.InferResponse.Id, i)
		}
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
