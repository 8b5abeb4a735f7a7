// Package library serves gRPC by the server of google.golang.org/grpc, in place of
// package transport: the way out for who meets a client that the latter does not
// get on with. Its handlers cannot tell the difference.
//
// It costs more for each call, and has none of the bounds that the library lacks:
// messages are counted once a handler has read them, answers that clients do not
// take are not, and compressed messages are inflated before anybody looks at them.
package library

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/nesoserve/neso/internal/grpcapi/transport"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/logging"
)

// Server is the library's.
type Server struct {
	grpc   *grpc.Server
	log    *slog.Logger
	ledger *ledger.Ledger // of what handlers have counted
}

// New returns a server without services. Compressors become those of the process,
// as the library knows no others, unless there are some of the same names: call it
// before anything makes calls. What the library has no place for is left out: ReceiveInto,
// Plain, Ledger but for what handlers have counted, Heavy, Key, Patience, Known.
func New(o transport.Options) *Server {
	register(o.Compressors)
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(o.Codec), grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(o.MaxMessage), grpc.MaxSendMsgSize(o.MaxSend),
		grpc.MaxConcurrentStreams(uint32(cmp.Or(o.MaxStreams, transport.DefaultMaxStreams))),
		grpc.MaxHeaderListSize(transport.MaxHeaderList),
		grpc.InitialWindowSize(o.StreamWindow), grpc.InitialConnWindowSize(o.ConnWindow),
		grpc.ConnectionTimeout(o.Hello),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: o.KeepaliveTime, Timeout: o.KeepaliveTimeout,
			MaxConnectionAge: o.MaxConnectionAge, MaxConnectionAgeGrace: o.MaxConnectionAgeGrace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: o.MinPingInterval, PermitWithoutStream: o.PingsWithoutCalls}),
	}
	if o.Tap != nil {
		options = append(options, grpc.InTapHandle(refuseLater(o.Tap)))
	}
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	return &Server{grpc: grpc.NewServer(options...), log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), ledger: o.Ledger}
}

var registering sync.Mutex

func register(compressors map[string]encoding.Compressor) {
	registering.Lock()
	defer registering.Unlock()
	for name, c := range compressors {
		if encoding.GetCompressor(name) == nil {
			encoding.RegisterCompressor(c)
		}
	}
}

// RegisterService implements grpc.ServiceRegistrar. It must come before Serve.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) {
	own := *d
	own.Methods, own.Streams = slices.Clone(d.Methods), slices.Clone(d.Streams)
	for i := range own.Methods {
		m := &own.Methods[i]
		name, handler := "/"+d.ServiceName+"/"+m.MethodName, m.Handler
		m.Handler = func(impl any, ctx context.Context, decode func(any) error, in grpc.UnaryServerInterceptor) (reply any, err error) {
			defer s.end(name, &err)
			if err := refusal(ctx); err != nil {
				return nil, err
			}
			uncompressed(ctx)
			return handler(impl, ctx, decode, in)
		}
	}
	for i := range own.Streams {
		m := &own.Streams[i]
		name, handler := "/"+d.ServiceName+"/"+m.StreamName, m.Handler
		m.Handler = func(impl any, g grpc.ServerStream) (err error) {
			st := &stream{ServerStream: g, ledger: s.ledger}
			defer func() {
				if st.after != nil {
					st.after()
				}
			}()
			defer s.end(name, &err)
			if err := refusal(g.Context()); err != nil {
				return err
			}
			uncompressed(g.Context())
			return handler(impl, st)
		}
	}
	s.grpc.RegisterService(&own, impl)
}

type refusalKey struct{}

// refuseLater leaves it to the handlers, which have read nothing yet, to refuse a
// call that has a deadline. The library does not end the context of a call that its
// tap refuses: the timer of the deadline, and with it the connection, would live as
// long as the client has said, which may be for ever.
func refuseLater(judge tap.ServerInHandle) tap.ServerInHandle {
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		own, err := judge(ctx, call)
		if _, timed := ctx.Deadline(); err == nil || !timed {
			return own, err
		}
		return context.WithValue(ctx, refusalKey{}, err), nil
	}
}

// refusal returns why the tap would have refused the call.
func refusal(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// uncompressed undoes the library's habit to answer as it was asked.
func uncompressed(ctx context.Context) { _ = grpc.SetSendCompressor(ctx, encoding.Identity) }

// end makes a status of what a handler returns. One that panics fails its call,
// not the server.
func (s *Server) end(method string, err *error) {
	if p := recover(); p != nil {
		s.log.Error("a handler panicked", slog.String("method", method), slog.Any("panic", p), logging.Block("stack", string(debug.Stack())))
		*err = status.Errorf(codes.Internal, "internal error: %v", p)
	}
	if _, ok := status.FromError(*err); !ok {
		*err = transport.Ended(*err).Err()
	}
}

// GetServiceInfo returns the names of the services.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.grpc.GetServiceInfo() }

// Serve answers the connections of l, until the server is stopped or l fails,
// and closes l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return transport.ErrStopped
}

// GracefulStop takes no new connections and calls, and returns when those there
// are have ended.
func (s *Server) GracefulStop() { s.grpc.GracefulStop() }

// Stop closes all connections, which cancels their calls, and returns when the
// calls' handlers have.
func (s *Server) Stop() { s.grpc.Stop() }

// stream is what handlers may know of a call besides.
type stream struct {
	grpc.ServerStream
	after  func()
	ledger *ledger.Ledger
	held   ledger.Room
}

// SendMsg implements grpc.ServerStream.
func (st *stream) SendMsg(m any) error {
	err := st.ServerStream.SendMsg(m)
	st.held.Give(st.ledger)
	st.held = ledger.Room{}
	return err
}

// SendLater implements transport.Later: the library sends each message at once.
func (st *stream) SendLater(m any) error { return st.SendMsg(m) }

// Flush implements transport.Later.
func (st *stream) Flush() {}

// Holds implements transport.Held: until the library has taken the message.
func (st *stream) Holds(room ledger.Room) { st.held = room }

// AfterSend implements transport.Sent, nearly: the status is about to leave.
func (st *stream) AfterSend(f func()) { st.after = f }

// Accepts implements transport.Compression.
func (st *stream) Accepts() []string {
	names, _ := grpc.ClientSupportedCompressors(st.Context()) // none for the context of no call
	return names
}

// SetSendCompress implements transport.Compression.
func (st *stream) SetSendCompress(name string) {
	_ = grpc.SetSendCompressor(st.Context(), name) // it is one of Accepts, and so the client knows it
}

var _ transport.Stream = (*stream)(nil)
