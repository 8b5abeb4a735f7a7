package library

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/nesoserve/neso/internal/grpcapi/transport"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) {
	encoding.RegisterCompressor(zipper{}) // clients have no other way to know it
	nesotest.Main(m)
}

// bytesCodec takes messages as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "bytes" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

type zipper struct{}

func (zipper) Name() string                                 { return "gzip" }
func (zipper) Compress(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }
func (zipper) Decompress(r io.Reader) (io.Reader, error)    { return gzip.NewReader(r) }

// either is a server that is tested.
type either interface {
	grpc.ServiceRegistrar
	Serve(l net.Listener) error
	GracefulStop()
	Stop()
}

// both are the servers: every case is to end the same with each.
var both = map[string]func(transport.Options) either{
	"neso":    func(o transport.Options) either { return transport.New(o) },
	"library": func(o transport.Options) either { return New(o) },
}

// obey does what a message asks for, and answers with it.
func obey(s grpc.ServerStream, order string) error {
	word, rest, _ := strings.Cut(order, " ")
	switch word {
	case "panic":
		panic("as asked")
	case "status":
		var code codes.Code
		fmt.Sscan(rest, (*uint32)(&code))
		st, err := status.New(code, "100% grün\n\x00…"+rest).WithDetails(&errdetails.ErrorInfo{Reason: "why", Domain: rest})
		if err != nil {
			return err
		}
		return st.Err()
	case "plain":
		return errors.New("an error that is no status")
	case "wait":
		<-s.Context().Done()
		return s.Context().Err()
	case "metadata":
		md, _ := metadata.FromIncomingContext(s.Context())
		for _, name := range []string{"user-agent", "grpc-accept-encoding"} { // the client's, whatever serves
			delete(md, name)
		}
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(md)) {
			if !strings.HasPrefix(name, ":") {
				lines = append(lines, fmt.Sprintf("%s=%q", name, md[name]))
			}
		}
		order = strings.Join(lines, "\n")
		if err := s.SetHeader(metadata.Pairs("x-head", "1", "x-head", "2", "x-bin", "\x00\xff")); err != nil {
			return err
		}
		s.SetTrailer(metadata.Pairs("x-tail", "end", "y-bin", "\x01"))
	case "head":
		if err := s.SendHeader(metadata.Pairs("x-head", "early")); err != nil {
			return err
		}
	case "zip":
		c := s.(transport.Compression)
		if !slices.Contains(c.Accepts(), "gzip") {
			return status.Error(codes.FailedPrecondition, "no gzip")
		}
		c.SetSendCompress("gzip")
	case "deadline":
		deadline, ok := s.Context().Deadline()
		left := time.Until(deadline)
		order = fmt.Sprint(ok, left > 30*time.Minute, left <= time.Hour)
	case "larger":
		order = strings.Repeat("x", 3<<20)
	}
	answer := []byte(order)
	return s.SendMsg(&answer)
}

func one(_ any, s grpc.ServerStream) error {
	var b []byte
	if err := s.RecvMsg(&b); err != nil {
		return err
	}
	return obey(s, string(b))
}

func many(_ any, s grpc.ServerStream) error {
	for {
		var b []byte
		switch err := s.RecvMsg(&b); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := obey(s, string(b)); err != nil {
			return err
		}
	}
}

// method is a call of generated code's kind.
func method(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var b []byte
	if err := decode(&b); err != nil {
		return nil, err
	}
	switch string(b) {
	case "panic":
		panic("as asked")
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "plain":
		return nil, errors.New("an error that is no status")
	}
	return &b, nil
}

var service = &grpc.ServiceDesc{
	ServiceName: "test.Same", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Method", Handler: method}},
	Streams: []grpc.StreamDesc{
		{StreamName: "One", Handler: one},
		{StreamName: "Many", Handler: many, ServerStreams: true, ClientStreams: true},
	},
}

const maxMessage = 1 << 20

// start serves by one of both until the test ends.
func start(t testing.TB, kind string) (either, string) {
	t.Helper()
	s := both[kind](transport.Options{
		Codec: bytesCodec{}, Compressors: map[string]encoding.Compressor{"gzip": zipper{}}, Logger: slog.New(slog.DiscardHandler),
		MaxMessage: maxMessage, MaxSend: 2 << 20, StreamWindow: 1 << 20, ConnWindow: 4 << 20, Hello: time.Minute,
		Tap: func(ctx context.Context, info *tap.Info) (context.Context, error) {
			if len(info.Header.Get("refuse")) > 0 {
				return ctx, status.Error(codes.PermissionDenied, "not for "+info.FullMethodName)
			}
			return ctx, nil
		},
	})
	s.RegisterService(service, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; !errors.Is(err, transport.ErrStopped) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(8<<20)), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// tell says how a call has ended.
func tell(err error, answer []byte, more ...metadata.MD) string {
	st := status.Convert(err)
	out := fmt.Sprintf("%v %q", st.Code(), strings.TrimPrefix(st.Message(), "grpc: ")) // which the library has not with each
	for _, d := range st.Details() {
		out += fmt.Sprintf(" %v", d)
	}
	if len(answer) > 1000 {
		out += fmt.Sprintf(" %d bytes, all the same %v", len(answer), bytes.Count(answer, answer[:1]) == len(answer))
	} else {
		out += fmt.Sprintf(" %q", answer)
	}
	for _, md := range more {
		for _, name := range slices.Sorted(maps.Keys(md)) {
			if name != "content-type" { // of which the library repeats the client's
				out += fmt.Sprintf(" %s=%q", name, md[name])
			}
		}
	}
	return out
}

// invoke makes a unary call.
func invoke(ctx context.Context, c *grpc.ClientConn, method, order string, options ...grpc.CallOption) string {
	message, answer := []byte(order), []byte(nil)
	var head, tail metadata.MD
	err := c.Invoke(ctx, method, &message, &answer, append(options, grpc.Header(&head), grpc.Trailer(&tail))...)
	return tell(err, answer, head, tail)
}

// talk opens a stream, sends the orders, one after the answer to the last, and
// closes its half.
func talk(ctx context.Context, c *grpc.ClientConn, method string, orders ...string) string {
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return tell(err, nil)
	}
	var out []string
	for _, order := range orders {
		message, answer := []byte(order), []byte(nil)
		_ = s.SendMsg(&message) // RecvMsg says why not
		err := s.RecvMsg(&answer)
		out = append(out, tell(err, answer))
		if err != nil {
			return strings.Join(out, "\n")
		}
	}
	_ = s.CloseSend()
	var b []byte
	err = s.RecvMsg(&b)
	return strings.Join(append(out, fmt.Sprint(errors.Is(err, io.EOF)), tell(err, b, s.Trailer())), "\n")
}

// cases are what a client may do with calls. Each says what came of it.
var cases = map[string]func(t *testing.T, c *grpc.ClientConn) string{
	"sizes": func(t *testing.T, c *grpc.ClientConn) string {
		var out []string
		for _, n := range []int{0, 1, 100, 1 << 10, 16379, 16384, 65530, 65536, 1<<20 - 1, 1 << 20, 1<<20 + 1} {
			for _, m := range []string{"One", "Method"} {
				out = append(out, invoke(t.Context(), c, "/test.Same/"+m, strings.Repeat("x", n)))
			}
			out = append(out, talk(t.Context(), c, "/test.Same/Many", strings.Repeat("x", n), strings.Repeat("y", n)))
		}
		return strings.Join(out, "\n")
	},
	"statuses": func(t *testing.T, c *grpc.ClientConn) string {
		var out []string
		for code := range 18 {
			if code != 0 {
				out = append(out, invoke(t.Context(), c, "/test.Same/One", fmt.Sprint("status ", code)),
					talk(t.Context(), c, "/test.Same/Many", "x", fmt.Sprint("status ", code)))
			}
		}
		return strings.Join(out, "\n")
	},
	"errors": func(t *testing.T, c *grpc.ClientConn) string {
		var out []string
		for _, order := range []string{"panic", "plain", "larger"} {
			for _, m := range []string{"One", "Method"} {
				if order != "larger" || m == "One" {
					out = append(out, invoke(t.Context(), c, "/test.Same/"+m, order))
				}
			}
			out = append(out, talk(t.Context(), c, "/test.Same/Many", "x", order))
		}
		return strings.Join(append(out, invoke(t.Context(), c, "/test.Same/One", "and on")), "\n")
	},
	"metadata": func(t *testing.T, c *grpc.ClientConn) string {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-a", "1", "x-A", "2", "x-bin", "\x00\x01\xff", "x-empty", "", "x-b", "a, b")
		return invoke(ctx, c, "/test.Same/One", "metadata") + "\n" + talk(ctx, c, "/test.Same/Many", "metadata") + "\n" +
			invoke(ctx, c, "/test.Same/One", "head")
	},
	"unknown": func(t *testing.T, c *grpc.ClientConn) string {
		var out []string
		for _, m := range []string{"/test.Same/Nope", "/nope.Nope/One", "/nope", "/", "/a/b/c", "/test.Same/"} {
			out = append(out, invoke(t.Context(), c, m, "x"), talk(t.Context(), c, m, "x"))
		}
		return strings.Join(out, "\n")
	},
	"refused": func(t *testing.T, c *grpc.ClientConn) string {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "refuse", "1")
		return invoke(ctx, c, "/test.Same/One", strings.Repeat("x", 1<<20)) + "\n" + talk(ctx, c, "/test.Same/Many", "x") + "\n" +
			invoke(t.Context(), c, "/test.Same/One", "and on")
	},
	"deadline": func(t *testing.T, c *grpc.ClientConn) string {
		hour, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		out := invoke(hour, c, "/test.Same/One", "deadline")
		for _, m := range []string{"One", "Method"} {
			soon, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			out += "\n" + strings.Fields(invoke(soon, c, "/test.Same/"+m, "wait"))[0] // who is first has the word
			cancel()
		}
		return out
	},
	"cancelled": func(t *testing.T, c *grpc.ClientConn) string {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Same/Many")
		if err != nil {
			return err.Error()
		}
		message, answer := []byte("x"), []byte(nil)
		_ = s.SendMsg(&message)
		out := tell(s.RecvMsg(&answer), answer)
		cancel()
		return out + "\n" + tell(s.RecvMsg(&answer), nil) + "\n" + invoke(t.Context(), c, "/test.Same/One", "and on")
	},
	"compressed": func(t *testing.T, c *grpc.ClientConn) string {
		zip := grpc.UseCompressor("gzip")
		return strings.Join([]string{
			invoke(t.Context(), c, "/test.Same/One", strings.Repeat("x", 100_000), zip),
			invoke(t.Context(), c, "/test.Same/Method", strings.Repeat("x", 100_000), zip),
			invoke(t.Context(), c, "/test.Same/One", "zip", zip),
			invoke(t.Context(), c, "/test.Same/One", "zip"),
			invoke(t.Context(), c, "/test.Same/One", strings.Repeat("x", 100_000)),
			strings.SplitN(invoke(t.Context(), c, "/test.Same/One", strings.Repeat("x", maxMessage+1), zip), "larger than max", 2)[0],
		}, "\n")
	},
	"at once": func(t *testing.T, c *grpc.ClientConn) string {
		outs := make([]string, 100)
		var wg sync.WaitGroup
		for i := range outs {
			wg.Go(func() {
				if i%2 == 0 {
					outs[i] = invoke(t.Context(), c, "/test.Same/One", fmt.Sprint(i))
				} else {
					outs[i] = talk(t.Context(), c, "/test.Same/Many", fmt.Sprint(i), strings.Repeat("z", 10_000*i%maxMessage))
				}
			})
		}
		wg.Wait()
		return strings.Join(outs, "\n")
	},
}

// Whatever a client calls, it is answered as the library answers it.
func TestSameCalls(t *testing.T) {
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for kind := range both {
				_, addr := start(t, kind)
				got[kind] = run(t, dial(t, addr))
			}
			if got["neso"] != got["library"] {
				t.Errorf("ours:\n%s\nthe library's:\n%s", got["neso"], got["library"])
			}
			if got["neso"] == "" {
				t.Error("nothing came of it")
			}
		})
	}
}

// A server that stops lets its calls end, and takes no new ones.
func TestSameStop(t *testing.T) {
	for kind := range both {
		t.Run(kind, func(t *testing.T) {
			s, addr := start(t, kind)
			c := dial(t, addr)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			open, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Same/Many")
			if err != nil {
				t.Fatal(err)
			}
			message, answer := []byte("x"), []byte(nil)
			_ = open.SendMsg(&message)
			if err := open.RecvMsg(&answer); err != nil {
				t.Fatal(err)
			}
			stopped := make(chan struct{})
			go func() { defer close(stopped); s.GracefulStop() }()
			for { // until it listens no more
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					break
				}
				nc.Close()
			}
			message = []byte("still here")
			_ = open.SendMsg(&message)
			if err := open.RecvMsg(&answer); err != nil || string(answer) != "still here" {
				t.Errorf("%q, %v", answer, err)
			}
			select {
			case <-stopped:
				t.Error("stopped before its call had ended")
			default:
			}
			_ = open.CloseSend()
			if err := open.RecvMsg(&answer); !errors.Is(err, io.EOF) {
				t.Errorf("the end: %v", err)
			}
			<-stopped
		})
	}
}
