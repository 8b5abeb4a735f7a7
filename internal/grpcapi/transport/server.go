package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/nesoserve/neso/internal/grpcapi/transport/flow"
	"github.com/nesoserve/neso/internal/lane"
	"github.com/nesoserve/neso/internal/ledger"
)

// Options configure a server. Codec is needed.
type Options struct {
	// Codec reads and writes all messages.
	Codec encoding.CodecV2
	// Compressors are the encodings of messages by name; others are refused.
	Compressors map[string]encoding.Compressor
	// Tap sees the head of each call before anything of its messages is read, and
	// may refuse it with a status. Handlers get the context that it returns.
	Tap tap.ServerInHandle
	// ReceiveInto may give the memory that a large message is received into. It is called
	// on the goroutine that reads the connection, with the method, the message's
	// first bytes (at most ReceiveHead) and its size. What it returns has as many
	// bytes, all of them writable, and is freed when the message has been read. Nil
	// leaves the choice to the transport, as nil itself does.
	ReceiveInto func(method string, head []byte, size int) mem.BufferSlice
	// TLS is nil for plain text.
	TLS *tls.Config
	// Plain is the answer to HTTP/1, a JSON object that says where that is served;
	// empty for none.
	Plain string
	// Logger takes what goes wrong in handlers; nil keeps nothing.
	Logger *slog.Logger

	// MaxMessage bounds a message in bytes, before and after decompression.
	MaxMessage int
	// MaxSend bounds a message that the server sends; 0 means MaxMessage.
	MaxSend int
	// Ledger counts what calls hold: messages that have come and wait for their
	// handlers, of compressed ones what they are inflated to, and answers that
	// clients have not taken. Calls that need more than there is end with
	// RESOURCE_EXHAUSTED. Nil means no bound.
	Ledger *ledger.Ledger
	// Heavy is where large messages are inflated, a lane of its own for nil.
	Heavy lane.Lane
	// Key returns whose share of the ledger a call's answers are, nil for nobody's;
	// may be nil itself.
	Key func(ctx context.Context) *ledger.Share
	// Patience is how long a message that is coming, and an answer that the client
	// has to take, may stand still; see ledger.Until for how long they may take. 0
	// means 1 min.
	Patience time.Duration
	// Known sees the beginning of a compressed message, inflated, and may refuse the
	// call before the rest is; nil takes all.
	Known func(ctx context.Context, method string, head []byte) error
	// StreamWindow and ConnWindow are what a client may send unasked on a stream,
	// and on a connection, in bytes.
	StreamWindow, ConnWindow int32
	// MaxStreams bounds the calls of one connection at the same time.
	MaxStreams int
	// Hello bounds the handshake of a new connection.
	Hello time.Duration

	// KeepaliveTime is the silence after which the server pings, KeepaliveTimeout
	// how long it waits for the answer.
	KeepaliveTime, KeepaliveTimeout time.Duration
	// MinPingInterval is how often a client may ping while no data flows, also
	// without a call when PingsWithoutCalls is set.
	MinPingInterval   time.Duration
	PingsWithoutCalls bool
	// MaxConnectionAge ends connections, by force after MaxConnectionAgeGrace; 0
	// means never.
	MaxConnectionAge, MaxConnectionAgeGrace time.Duration
}

// Defaults of Options, which are those of the library.
const (
	defaultKeepaliveTime    = 2 * time.Hour
	defaultKeepaliveTimeout = 20 * time.Second
	defaultMinPing          = 5 * time.Minute
	defaultHello            = 2 * time.Minute
	defaultPatience         = time.Minute
)

// DefaultMaxStreams is Options.MaxStreams that nobody has set.
const DefaultMaxStreams = 1 << 14

func (o *Options) fill() {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.KeepaliveTime, defaultKeepaliveTime)
	set(&o.KeepaliveTimeout, defaultKeepaliveTimeout)
	set(&o.MinPingInterval, defaultMinPing)
	set(&o.Hello, defaultHello)
	set(&o.Patience, defaultPatience)
	if o.MaxStreams <= 0 {
		o.MaxStreams = DefaultMaxStreams
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = 4 << 20
	}
	if o.MaxSend <= 0 {
		o.MaxSend = o.MaxMessage
	}
	if o.Ledger == nil {
		o.Ledger = ledger.New(math.MaxInt64)
	}
	if o.Heavy == nil {
		o.Heavy = lane.New()
	}
	o.StreamWindow = max(o.StreamWindow, flow.Default)
	o.ConnWindow = max(o.ConnWindow, o.StreamWindow)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// ErrStopped is returned by Serve once the server has been stopped.
var ErrStopped = errors.New("transport: the server has been stopped")

// Server serves gRPC. Register services first, then Serve.
type Server struct {
	o        Options
	services map[string]bool
	methods  map[string]*method
	ahead    atomic.Int64 // memory that is made for messages before they come
	work     chan *stream // to handlers that wait for calls
	watching atomic.Bool
	parting  atomic.Bool   // connections are asked to end soon
	wake     chan struct{} // to watch, once for each change of watching to true

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	stopping  bool // no new connections; those there drain
	running   sync.WaitGroup
	spare     sync.Once
	idle      chan struct{} // closed to end handlers that wait
	idleOnce  sync.Once
	watcher   sync.WaitGroup
	unwatched chan struct{} // closed to end watch, when there is no connection left
	lastOnce  sync.Once
}

// method is a call that clients can make.
type method struct {
	name    string
	impl    any
	unary   *grpc.MethodDesc
	stream  *grpc.StreamDesc
	streams bool // more than one message may come, or go
}

// New returns a server without services.
func New(o Options) *Server {
	o.fill()
	return &Server{
		o: o, services: map[string]bool{}, methods: map[string]*method{}, listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{},
		work: make(chan *stream), wake: make(chan struct{}, 1), idle: make(chan struct{}), unwatched: make(chan struct{}),
	}
}

// RegisterService implements grpc.ServiceRegistrar. It must come before Serve.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) {
	s.services[d.ServiceName] = true
	for i := range d.Methods {
		m := &method{name: "/" + d.ServiceName + "/" + d.Methods[i].MethodName, impl: impl, unary: &d.Methods[i]}
		s.methods[m.name] = m
	}
	for i := range d.Streams {
		x := &d.Streams[i]
		m := &method{name: "/" + d.ServiceName + "/" + x.StreamName, impl: impl, stream: x, streams: x.ServerStreams || x.ClientStreams}
		s.methods[m.name] = m
	}
}

// GetServiceInfo returns the names of the services.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo {
	all := make(map[string]grpc.ServiceInfo, len(s.services))
	for name := range s.services {
		all[name] = grpc.ServiceInfo{}
	}
	return all
}

// acceptPause is how long Serve waits after an error that may pass, such as a
// lack of descriptors.
const acceptPause = 5 * time.Millisecond

// Serve answers the connections of l, until the server is stopped or l fails,
// and closes l.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		l.Close()
		return ErrStopped
	}
	s.listeners[l] = struct{}{}
	s.spare.Do(func() {
		for range spareHandlers {
			s.running.Go(s.handle)
		}
		s.watcher.Go(s.watch)
	})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		l.Close()
	}()
	for pause := acceptPause; ; {
		nc, err := l.Accept()
		if err == nil {
			pause = acceptPause
			s.admit(nc)
			continue
		}
		s.mu.Lock()
		stopped := s.stopping
		s.mu.Unlock()
		var temporary interface{ Temporary() bool }
		switch {
		case stopped:
			return ErrStopped
		case errors.As(err, &temporary) && temporary.Temporary():
			pause = min(2*pause, time.Second)
			select {
			case <-time.After(pause):
			case <-s.idle:
			}
		default:
			return err
		}
	}
}

// admit serves a connection, unless the server is stopping.
func (s *Server) admit(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		nc.Close()
		return
	}
	c := newIntake(s, nc)
	s.conns[c.conn] = struct{}{}
	s.running.Go(c.serve)
}

// forget ends what admit began.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// begin closes the listeners and returns the connections that there are.
func (s *Server) begin() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for l := range s.listeners {
		l.Close()
	}
	return slices.Collect(maps.Keys(s.conns))
}

// partAge is how old connections get once the server parts from them.
const partAge = time.Second

// Part has clients take new connections, while all calls are served. One that comes
// now, or has not been greeted, gets partAge.
func (s *Server) Part() {
	s.parting.Store(true)
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		c.part()
	}
}

// GracefulStop takes no new connections and calls, and returns when those there
// are have ended.
func (s *Server) GracefulStop() {
	for _, c := range s.begin() {
		c.drain("server is shutting down")
	}
	s.end()
}

// Stop closes all connections, which cancels their calls, and returns when the
// calls' handlers have.
func (s *Server) Stop() {
	for _, c := range s.begin() {
		c.close()
	}
	s.end()
}

func (s *Server) end() {
	s.idleOnce.Do(func() { close(s.idle) })
	s.running.Wait()
	s.lastOnce.Do(func() { close(s.unwatched) })
	s.watcher.Wait()
}

// after is time.AfterFunc for what the server's end waits for.
func (s *Server) after(d time.Duration, f func()) *time.Timer {
	s.running.Add(1)
	return time.AfterFunc(d, func() {
		defer s.running.Done()
		f()
	})
}

// stopTimer ends what after began. t may be nil, or over.
func (s *Server) stopTimer(t *time.Timer) {
	if t != nil && t.Stop() {
		s.running.Done()
	}
}

// exhausted is what ends a call for whose n bytes there is no room.
func (s *Server) exhausted(p ledger.Page, n int64) *status.Status {
	return status.New(codes.ResourceExhausted, s.o.Ledger.Refusal(p, n).Message)
}

// spareHandlers are goroutines that wait for calls from the start on, with
// stacks that grow once; when none is free, a call gets one of its own. Growing took
// 8 % of the CPU where 16 waited for 32 calls at a time; a stack has some 8 KiB.
const spareHandlers = 64

// start runs the handler of a call on another goroutine.
func (s *Server) start(st *stream) {
	select {
	case s.work <- st:
	default:
		s.running.Go(st.run)
	}
}

// handle runs handlers of calls until the server stops.
func (s *Server) handle() {
	for {
		select {
		case st := <-s.work:
			st.run()
		case <-s.idle:
			return
		}
	}
}
