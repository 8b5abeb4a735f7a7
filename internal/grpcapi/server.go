package grpcapi

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/grpcapi/library"
	"github.com/nesoserve/neso/internal/grpcapi/transport"
	"github.com/nesoserve/neso/internal/kserve/jsonwire"
	"github.com/nesoserve/neso/internal/kserve/protowire"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/setting"
)

// Options configure the front end. The zero values are Triton's defaults.
type Options struct {
	Engine *engine.Engine
	// Words are what messages call settings of the server.
	Words setting.Words
	// Log is what LogSettings shows and changes; without it the call is not
	// supported.
	Log *logging.Log
	// Logger takes an access line for each inference at verbose level 1.
	Logger *slog.Logger
	// TLS is nil for plain text.
	TLS *tls.Config

	// ResponseCompression is none, low, medium or high.
	ResponseCompression string
	// HeaderForwardPattern selects the metadata that become request parameters.
	HeaderForwardPattern string
	// Join hands out a socket and a token with which another process can bind
	// models; nil refuses.
	Join func() (socket, token string, err error)
	// HTTPAt says where HTTP is served, as in "port 8000", to those who ask for it
	// here; empty for nowhere.
	HTTPAt string
	// Guard asks for keys; nil asks for none.
	Guard *auth.Guard
	// ManagedElsewhere refuses what changes the server.
	ManagedElsewhere bool
	// NoReflection leaves out what tells clients the services and their messages.
	NoReflection bool
	// Restricted holds, for a category, the metadata that a call must bring.
	Restricted map[string]Restriction
	// Library serves by the library's server rather than by the transport of our own.
	Library bool

	KeepaliveTime               time.Duration // 0 means 2 h
	KeepaliveTimeout            time.Duration // 0 means 20 s
	KeepalivePermitWithoutCalls bool
	// MinRecvPingInterval is how often a client may ping while it sends no data;
	// 0 means 5 min.
	MinRecvPingInterval time.Duration
	MaxConnectionAge    time.Duration // 0 means no end
	// MaxMessageSize bounds one message in bytes; 0 means what the server can queue
	// altogether, and 2 GiB at most.
	MaxMessageSize int64
	// MaxStreams bounds the calls of one connection; 0 means no bound.
	MaxStreams            uint32
	MaxConnectionAgeGrace time.Duration // 0 means no end
}

// Sizes of the transport, from measurements with 64 B and 1 MiB messages.
const (
	// streamWindow lets a message of usual size, such as a tensor of 1 MiB and what
	// describes it, come without waiting for the server; longer ones get their room
	// once their length is known.
	streamWindow = 2 << 20
	connWindow   = 16 << 20
)

// helloTimeout is how long a new connection may take over its handshake.
const helloTimeout = 10 * time.Second

// server is what serves connections: package transport, or library.
type server interface {
	grpc.ServiceRegistrar
	GetServiceInfo() map[string]grpc.ServiceInfo
	Serve(l net.Listener) error
	GracefulStop()
	Stop()
}

// Server is the gRPC front end.
type Server struct {
	o         Options
	grpc      server
	forward   *forward
	encodings []string

	closing  atomic.Bool
	stopping chan struct{} // closed when the server begins to stop
	stopOnce sync.Once
	stopped  chan struct{} // closed when every handler has ended
	cutOnce  sync.Once
	cutting  sync.WaitGroup // closes the connections, and waits for their handlers
	// work is what runs on behalf of streams beside their handlers.
	work sync.WaitGroup
}

// New returns a server that does not listen yet.
func New(o Options) (*Server, error) {
	s := &Server{o: o, stopping: make(chan struct{}), stopped: make(chan struct{})}
	var err error
	if s.forward, err = newForward(o.HeaderForwardPattern, o.Words); err != nil {
		return nil, err
	}
	if s.encodings, err = encodingsOf(o.ResponseCompression, o.Words); err != nil {
		return nil, err
	}
	options := transport.Options{
		Codec: newCodec(), ReceiveInto: s.receiveInto, Compressors: compressors, TLS: o.TLS, Plain: plain(o.HTTPAt), Logger: o.Logger,
		MaxMessage: s.maxMessage(), MaxSend: protowire.MaxSize, MaxStreams: int(s.o.MaxStreams),
		Ledger: o.Engine.Ledger(), Heavy: o.Engine.Heavy(), Key: shareOf, Known: s.known,
		StreamWindow: streamWindow, ConnWindow: connWindow, Hello: helloTimeout,
		KeepaliveTime: o.KeepaliveTime, KeepaliveTimeout: o.KeepaliveTimeout,
		MinPingInterval: o.MinRecvPingInterval, PingsWithoutCalls: o.KeepalivePermitWithoutCalls,
		MaxConnectionAge: o.MaxConnectionAge, MaxConnectionAgeGrace: o.MaxConnectionAgeGrace,
	}
	if len(o.Restricted) > 0 || s.guarded() {
		options.Tap = s.admit()
	}
	if o.Library {
		s.grpc = library.New(options)
	} else {
		s.grpc = transport.New(options)
	}
	s.grpc.RegisterService(serviceDesc(s), s)
	s.grpc.RegisterService(bindingDesc(s), s)
	s.grpc.RegisterService(rolloutDesc(s), s)
	grpc_health_v1.RegisterHealthServer(s.grpc, &health{s: s})
	if !o.NoReflection {
		if err := s.reflect(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// plain is the answer to HTTP/1.
func plain(httpAt string) string {
	text := "this is the gRPC port, which speaks HTTP/2 only"
	if httpAt != "" {
		text += "; HTTP is served at " + httpAt
	}
	return string(jsonwire.AppendError(nil, text))
}

// besides is what a message has besides the bytes of its tensors.
const besides = 1 << 20

// maxQueued is what messages may hold that nobody has read yet: as much as their
// inputs may hold afterwards.
func (s *Server) maxQueued() int64 {
	n := s.o.Engine.MaxQueuedBytes()
	return max(n, n+besides) // it may be the largest number there is
}

// maxMessage is the size above which a message is refused by its head, before
// the transport makes room for it: what can never be admitted need not come.
func (s *Server) maxMessage() int {
	most := min(int64(protowire.MaxSize), s.maxQueued())
	if s.o.MaxMessageSize > 0 {
		most = min(most, s.o.MaxMessageSize)
	}
	return int(most)
}

// Serve answers the connections of l until Shutdown, then returns nil. It may
// be called for several listeners, and closes l.
func (s *Server) Serve(l net.Listener) error {
	err := s.grpc.Serve(l)
	if errors.Is(err, transport.ErrStopped) {
		return nil
	}
	return err
}

// Part asks clients to take new connections, while all calls are served: those that
// come now are asked soon. The library knows no way to do that.
func (s *Server) Part() {
	if t, ok := s.grpc.(*transport.Server); ok {
		t.Part()
	}
}

// Shutdown refuses new inference requests, lets those in flight end, and closes
// all connections: at the latest when ctx ends, then with ctx's error. Handlers
// may still run then. Whoever owns the server calls Shutdown again, which waits
// for them until its own ctx ends; nil means that none is left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopOnce.Do(func() {
		s.closing.Store(true)
		close(s.stopping)
		go func() {
			defer close(s.stopped)
			s.grpc.GracefulStop()
			s.work.Wait()
		}()
	})
	select {
	case <-s.stopped:
		s.cutting.Wait() // at its end too, if it has begun
		return nil
	case <-ctx.Done():
	}
	// Closing the connections cancels what is in flight. A model that does not
	// heed that is the engine's to end.
	s.cutOnce.Do(func() { s.cutting.Go(s.grpc.Stop) })
	return ctx.Err()
}
