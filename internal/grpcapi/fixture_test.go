package grpcapi

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/engine"
	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// config is a model with one input and one output of any length.
func config(name, datatype, more string) string {
	return `name: "` + name + `" backend: "test" max_batch_size: 0
		input [{ name: "IN" data_type: TYPE_` + datatype + ` dims: [-1] }]
		output [{ name: "OUT" data_type: TYPE_` + datatype + ` dims: [-1] }] ` + more
}

// models are what every fixture serves.
var models = map[string]string{
	"fp32/config.pbtxt":  config("fp32", "FP32", ""),
	"fp32/1/":            "",
	"fp32/3/":            "",
	"int32/config.pbtxt": config("int32", "INT32", ""),
	"int32/1/":           "",
	"text/config.pbtxt":  config("text", "STRING", ""),
	"text/1/":            "",
	"many/config.pbtxt":  config("many", "INT32", `model_transaction_policy { decoupled: true } instance_group [{ count: 2 kind: KIND_CPU }]`),
	"many/1/":            "",
	"wide/config.pbtxt":  config("wide", "INT32", `instance_group [{ count: 4 kind: KIND_CPU }]`),
	"wide/1/":            "",
	"batched/config.pbtxt": `name: "batched" backend: "test" max_batch_size: 1 dynamic_batching { }
		input [{ name: "IN" data_type: TYPE_INT32 dims: [1] }] output [{ name: "OUT" data_type: TYPE_INT32 dims: [1] }]
		instance_group [{ count: 4 kind: KIND_CPU }]`,
	"batched/1/": "",
}

// fixture is a server on a loopback port with a client.
type fixture struct {
	t      *testing.T
	echo   *nesotest.Echo
	pool   *memory.Pool
	engine *engine.Engine
	server *Server
	conn   *grpc.ClientConn
	served chan error
	once   sync.Once
}

// start serves the models; at the end of the test everything has to be closed
// and no buffer in use.
func start(t *testing.T, echo *nesotest.Echo, o Options, dial ...grpc.DialOption) *fixture {
	t.Helper()
	echo.Name = "test"
	f := &fixture{t: t, echo: echo, pool: memory.New(memory.Options{}), served: make(chan error, 1)}
	var err error
	f.engine, err = engine.New(engine.Options{
		Repositories: []string{nesotest.Tree(t, models)}, Backends: []backend.Driver{echo.Driver()},
		Logger: slog.New(slog.DiscardHandler), Allocator: f.pool,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.Engine = f.engine
	if f.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { f.served <- f.server.Serve(l) }()
	dial = append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)), grpc.WithNoProxy())
	if f.conn, err = grpc.NewClient("passthrough:///"+l.Addr().String(), dial...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stopped)
	return f
}

// stopped stops everything, once.
func (f *fixture) stopped() { f.once.Do(f.stop) }

func (f *fixture) stop() {
	f.conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.server.Shutdown(ctx); err != nil {
		f.t.Errorf("Shutdown: %v", err)
	}
	if err := <-f.served; err != nil {
		f.t.Errorf("Serve: %v", err)
	}
	if err := f.engine.Close(ctx); err != nil {
		f.t.Errorf("Close: %v", err)
	}
	if n := f.echo.Alive(); n != 0 {
		f.t.Errorf("%d parts of the backend are left", n)
	}
	for _, l := range f.pool.Leaks() {
		f.t.Errorf("buffer in use: %s", l)
	}
	f.pool.Close()
}

// invoke makes one unary call.
func invoke[P any](f *fixture, method string, request any, options ...grpc.CallOption) (*P, error) {
	response := new(P)
	err := f.conn.Invoke(f.t.Context(), "/"+serviceName+"/"+method, request, response, options...)
	return response, err
}

// infer calls ModelInfer.
func (f *fixture) infer(q *pb.ModelInferRequest) (*pb.ModelInferResponse, error) {
	return invoke[pb.ModelInferResponse](f, "ModelInfer", q)
}

// words is an error as "code: message".
func words(err error) string {
	if err == nil {
		return "OK"
	}
	s, _ := status.FromError(err)
	return s.Code().String() + ": " + s.Message()
}

// request asks a model for its echo of int32 values given as raw bytes.
func request(model, id string, values ...int32) *pb.ModelInferRequest {
	q := &pb.ModelInferRequest{ModelName: model, Id: id, Inputs: []*pb.ModelInferRequest_InferInputTensor{
		{Name: "IN", Datatype: "INT32", Shape: []int64{int64(len(values))}},
	}}
	var raw []byte
	for _, v := range values {
		raw = append(raw, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	q.RawInputContents = [][]byte{raw}
	return q
}

func with(q *pb.ModelInferRequest, name string, p *pb.InferParameter) *pb.ModelInferRequest {
	if q.Parameters == nil {
		q.Parameters = map[string]*pb.InferParameter{}
	}
	q.Parameters[name] = p
	return q
}

func boolParam(v bool) *pb.InferParameter {
	return &pb.InferParameter{ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: v}}
}

// first returns the first value of a request's input.
func first(r *backend.Request) int32 {
	d := r.Inputs[0].Data
	return int32(d[0]) | int32(d[1])<<8 | int32(d[2])<<16 | int32(d[3])<<24
}

// value is a response with one int32.
func value(v int32) *backend.Response {
	return &backend.Response{Outputs: []tensor.Tensor{{
		Name: "OUT", Datatype: tensor.Int32, Shape: tensor.Shape{1},
		Data: []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)},
	}}}
}

// wait reads from a channel, but not for ever.
func wait[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatalf("waited too long for %s", what)
	}
	return v
}
