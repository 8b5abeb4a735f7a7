package library

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/nesoserve/neso/internal/grpcapi/transport"
)

// TestRefusedCallsLeaveNothing: a call that the tap refuses is over when its client
// knows, whatever deadline it came with.
func TestRefusedCallsLeaveNothing(t *testing.T) {
	contexts := make(chan context.Context, 4)
	refuse := func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		contexts <- ctx
		return ctx, status.Error(codes.Unauthenticated, "no key")
	}
	s := New(transport.Options{
		Codec: bytesCodec{}, Tap: refuse, Hello: time.Minute, MaxMessage: 1 << 20, MaxSend: 1 << 20,
		KeepaliveTime: time.Hour, KeepaliveTimeout: time.Minute,
	})
	handled := func(any, grpc.ServerStream) error {
		t.Error("a handler ran")
		return nil
	}
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "One", Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any,
			error,
		) {
			t.Error("a handler ran")
			return nil, nil
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Many", Handler: handled, ServerStreams: true, ClientStreams: true}},
	}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Stop()
		<-served
	}()
	client, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, method := range []string{"One", "Many"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		in, out := []byte("x"), []byte(nil)
		if err := client.Invoke(ctx, "/test.Echo/"+method, &in, &out); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", method, err)
		}
		select {
		case <-(<-contexts).Done():
		case <-time.After(time.Minute):
			t.Errorf("%s: what the library keeps of the call is still there", method)
		}
		cancel()
	}
}
