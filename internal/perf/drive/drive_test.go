package drive

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // of the server
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/wire"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// echo is a server of grpc-go's: what we speak is HTTP/2 if it understands it.
type echo struct{ seen chan string }

func (e echo) describe() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "inference.GRPCInferenceService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "ModelInfer",
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				r := &inferencepb.ModelInferRequest{}
				if err := decode(r); err != nil {
					return nil, err
				}
				return e.infer(ctx, r)
			},
		}},
		Streams: []grpc.StreamDesc{{
			StreamName: "ModelStreamInfer", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return stream3(s) },
		}},
	}
}

func (e echo) infer(ctx context.Context, r *inferencepb.ModelInferRequest) (*inferencepb.ModelInferResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	select {
	case e.seen <- strings.Join(md["x-a"], ","):
	default:
	}
	if r.GetModelName() == "bad" {
		return nil, status.Error(codes.NotFound, "no model 'ä'")
	}
	return respond(r), nil
}

func respond(r *inferencepb.ModelInferRequest) *inferencepb.ModelInferResponse {
	out := &inferencepb.ModelInferResponse{ModelName: r.GetModelName(), RawOutputContents: r.GetRawInputContents()}
	for _, in := range r.GetInputs() {
		out.Outputs = append(out.Outputs, &inferencepb.ModelInferResponse_InferOutputTensor{
			Name: in.GetName(), Datatype: in.GetDatatype(), Shape: in.GetShape(),
		})
	}
	return out
}

// stream3 answers each request three times, and then with a response that says it is
// the last.
func stream3(s grpc.ServerStream) error {
	for {
		r := &inferencepb.ModelInferRequest{}
		if s.RecvMsg(r) != nil {
			return nil
		}
		if r.GetModelName() == "bad" {
			if err := s.SendMsg(&inferencepb.ModelStreamInferResponse{ErrorMessage: "no"}); err != nil {
				return err
			}
			if err := s.SendMsg(final()); err != nil { // which is no answer to the next request
				return err
			}
			continue
		}
		for i := range 4 {
			m := &inferencepb.ModelStreamInferResponse{InferResponse: respond(r)}
			if i == 3 {
				m = final()
			}
			if err := s.SendMsg(m); err != nil {
				return err
			}
		}
	}
}

func final() *inferencepb.ModelStreamInferResponse {
	return &inferencepb.ModelStreamInferResponse{InferResponse: &inferencepb.ModelInferResponse{
		Parameters: map[string]*inferencepb.InferParameter{
			"triton_final_response": {ParameterChoice: &inferencepb.InferParameter_BoolParam{BoolParam: true}},
		},
	}}
}

func serveEcho(t *testing.T, o ...grpc.ServerOption) (*Dialer, echo, *grpc.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := echo{seen: make(chan string, 1)}
	s := grpc.NewServer(append(o, grpc.MaxRecvMsgSize(64<<20))...)
	s.RegisterService(e.describe(), e)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return &Dialer{Address: l.Addr().String(), Timeout: 10 * time.Second}, e, s
}

func request(model string, size int) *Request {
	step := &data.Step{Inputs: []data.Tensor{
		{Name: "X", Datatype: tensor.Uint8, Shape: tensor.Shape{int64(size)}, Bytes: bytes.Repeat([]byte("abc"), size/3+1)[:size]},
	}}
	return &Request{Prepared: wire.GRPC(&wire.Call{Model: model, Sequence: true}, step), ID: 7}
}

// TestGRPC sends messages of sizes on both sides of frames and windows.
func TestGRPC(t *testing.T) {
	for _, compression := range []string{"", "gzip"} {
		d, e, _ := serveEcho(t, grpc.InitialWindowSize(1<<16), grpc.InitialConnWindowSize(1<<16))
		c := GRPC(d, GRPCOptions{Heads: NewHeads(d, "h", InferMethod, [][2]string{{"X-A", "b"}}, compression), Compression: compression})
		a := Answer{Keep: true}
		for _, size := range []int{1, 64, 16 << 10, 1<<16 + 5, 9 << 20, 2} {
			for range 3 {
				r := request("m", size)
				if err := c.Do(r, &a); err != nil {
					t.Fatalf("%d bytes: %v", size, err)
				}
				out, err := wire.Outputs(a.Body)
				if err != nil || len(out) != 1 || !bytes.Equal(out[0].Bytes, r.Step.Inputs[0].Bytes) || a.Responses != 1 {
					t.Fatalf("%d bytes: %v, %d outputs of %q, %d responses", size, err, len(out), a.Body, a.Responses)
				}
				if a.Sent <= 0 || a.First < 0 || a.Last < a.First {
					t.Errorf("times %+v", a)
				}
			}
		}
		if got := <-e.seen; got != "b" {
			t.Errorf("the server saw the header %q", got)
		}
		for range 2 {
			if err := c.Do(request("bad", 1), &a); err == nil || err.Error() != "gRPC NotFound: no model 'ä'" {
				t.Errorf("got %v", err)
			}
		}
		c.Close()
		if err := c.Do(request("m", 1), &a); err == nil {
			t.Error("a closed connection answers")
		}
	}
}

func TestGRPCStream(t *testing.T) {
	d, _, _ := serveEcho(t)
	c := GRPC(d, GRPCOptions{Heads: NewHeads(d, "h", StreamMethod, nil, ""), Streaming: true, Decoupled: true})
	defer c.Close()
	responses := 0
	a := Answer{Keep: true, Times: true, OnResponse: func(int) { responses++ }}
	for _, size := range []int{1, 40 << 10, 1} {
		if err := c.Do(request("m", size), &a); err != nil || a.Responses != 3 || len(a.At) != 3 || a.FirstResponse > a.Last {
			t.Fatalf("%d bytes: %v, %d responses at %v", size, err, a.Responses, a.At)
		}
	}
	if err := c.Do(request("bad", 1), &a); err == nil || err.Error() != "error in the stream: no" {
		t.Errorf("got %v", err)
	}
	if err := c.Do(request("m", 1), &a); err != nil || responses != 12 {
		t.Errorf("after an error: %v, %d responses", err, responses)
	}
}

// TestServerGone: what a server that ends leaves is a failure, and the connection is
// made anew.
func TestServerGone(t *testing.T) {
	d, _, s := serveEcho(t)
	c := GRPC(d, GRPCOptions{Heads: NewHeads(d, "h", InferMethod, nil, "")})
	defer c.Close()
	a := Answer{}
	if err := c.Do(request("m", 1), &a); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	for range 2 {
		f, ok := c.Do(request("m", 1), &a).(*Failure) //nolint:errorlint // made here, never wrapped
		if !ok || !f.Broken {
			t.Errorf("got %v", f)
		}
	}
}

func httpRequest(t *testing.T, size int) *Request {
	t.Helper()
	step := &data.Step{Inputs: []data.Tensor{
		{Name: "X", Datatype: tensor.Uint8, Shape: tensor.Shape{int64(size)}, Bytes: bytes.Repeat([]byte("x"), size)},
	}}
	p, err := wire.HTTP(&wire.Call{Model: "m", Host: "h"}, step)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Prepared: p}
}

func TestHTTP(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch r.URL.Query().Get("as") {
		case "chunks":
			for i := range 3 {
				_, _ = w.Write(b[i*len(b)/3 : (i+1)*len(b)/3])
				w.(http.Flusher).Flush()
			}
			return
		case "close":
			w.Header().Set("Connection", "close")
		case "bad":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"why"}`))
			return
		}
		w.Header().Set("Inference-Header-Content-Length", "5")
		_, _ = w.Write(b)
	}))
	defer s.Close()
	d := &Dialer{Address: strings.TrimPrefix(s.URL, "http://"), Timeout: 10 * time.Second}
	c := HTTP(d, false)
	defer c.Close()
	a := Answer{Keep: true}
	for _, as := range []string{"", "chunks", "close", "bad", ""} {
		for _, size := range []int{10, 200 << 10, 3 << 20} {
			r := httpRequest(t, size)
			r.Head = bytes.Replace(r.Head, []byte("/infer "), []byte("/infer?as="+as+" "), 1)
			err := c.Do(r, &a)
			if as == "bad" {
				if err == nil || err.Error() != "HTTP 400: why" {
					t.Errorf("got %v", err)
				}
				continue
			}
			if err != nil || len(a.Body) < size || !bytes.HasSuffix(a.Body, r.Tail) || as == "" && a.Header != 5 {
				t.Errorf("%q, %d bytes: %v, %d bytes come back, JSON %d", as, size, err, len(a.Body), a.Header)
			}
		}
	}
}

// TestEvents counts the events of a stream of them, wherever its chunks end.
func TestEvents(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"data: {}\n\nda", "ta: {\"a\":\"data: x\"}\n", "\ndata: {}\n\ndata: [DO", "NE]\n\n"} {
			_, _ = w.Write([]byte(part))
			w.(http.Flusher).Flush()
		}
	}))
	defer s.Close()
	c := HTTP(&Dialer{Address: strings.TrimPrefix(s.URL, "http://"), Timeout: 10 * time.Second}, true)
	defer c.Close()
	a := Answer{Times: true}
	// The fourth is the end of the stream.
	if err := c.Do(httpRequest(t, 1), &a); err != nil || a.Responses != 3 || len(a.At) != 4 {
		t.Errorf("%v, %d responses, times %v", err, a.Responses, a.At)
	}
}

// TestEventError: an event that tells an error fails the request, whose answer is read
// to its end; one that has the word does not.
func TestEventError(t *testing.T) {
	for text, want := range map[string]string{
		"data: {\"error\": {\"message\": \"why\"}}\n\ndata: [DONE]\n\n": `error in the stream: {"message": "why"}`,
		"data: {\"error\": \"why\"}\n\n":                                `error in the stream: why`,
		"data: {\"a\": \"\\\"error\\\"\", \"error\": null}\n\n":         "",
		"data: \"error\"\n\n":                                           "",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
		c := HTTP(&Dialer{Address: strings.TrimPrefix(s.URL, "http://"), Timeout: 10 * time.Second}, true)
		for range 2 { // the connection goes on
			got := ""
			if err := c.Do(httpRequest(t, 1), &Answer{}); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
		c.Close()
		s.Close()
	}
}

// TestNoServer: ports that are none, or speak something else.
func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2p1 hello\r\n"))
			c.Close()
		}
	}()
	d := &Dialer{Address: l.Addr().String(), Timeout: 10 * time.Second}
	conns := map[string]Conn{"HTTP": HTTP(d, false), "gRPC": GRPC(d, GRPCOptions{Heads: NewHeads(d, "h", InferMethod, nil, "")})}
	for name, c := range conns {
		f, ok := c.Do(httpRequest(t, 1), &Answer{}).(*Failure) //nolint:errorlint // made here, never wrapped
		if !ok || !f.Broken {
			t.Errorf("%s with a server of SSH: %v", name, f)
		}
	}
	l.Close()
	for name, c := range conns {
		if err := c.Do(httpRequest(t, 1), &Answer{}); err == nil || !strings.HasPrefix(err.Error(), "cannot connect") {
			t.Errorf("%s without a server: %v", name, err)
		}
		c.Close()
	}
}

// TestNothingIsAllocated: a request costs no allocation once a connection is warm.
func TestNothingIsAllocated(t *testing.T) {
	d, _, _ := serveEcho(t)
	c := GRPC(d, GRPCOptions{Heads: NewHeads(d, "h", InferMethod, nil, "")}).(*grpcConn)
	defer c.Close()
	a, r := Answer{}, request("m", 64)
	if err := c.Do(r, &a); err != nil {
		t.Fatal(err)
	}
	// The server allocates in the same process, so the parts of our side are counted.
	c.answer = &a
	answer := append([]byte{0, 0, 0, 0, 3}, "abc"...)
	block := []byte{0x88, 0x87}
	if _, err := c.header.read(block); err != nil {
		t.Fatal(err)
	}
	got := testing.AllocsPerRun(1000, func() {
		c.start()
		c.out = r.AppendHead(c.out, 5, true, false)
		_ = c.take5(answer)
		_, _ = c.header.read(block)
		a.reset()
	})
	if got > 0 {
		t.Errorf("%v allocations a request", got)
	}
}
