package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/client/internal/bounded"
)

const (
	service  = "/inference.GRPCInferenceService/"
	grpcUnix = "grpc+unix:"
	// rolloutCall is of a service of Neso's own.
	rolloutCall = "/neso.Rollout/ModelRollout"

	// pushback is the trailer by which a server says when to try again.
	pushback = "grpc-retry-pushback-ms"
)

// overGRPC is the transport of gRPC: the library's connections, with messages
// encoded and decoded here, so that tensors are not copied on the way.
type overGRPC struct {
	c        *Client
	conns    []*grpc.ClientConn
	next     atomic.Uint32
	metadata metadata.MD // of the client, nil if there is none
}

func openGRPC(c *Client, limit int64) (*overGRPC, error) {
	target, secure, err := grpcTarget(c.URL)
	if err != nil {
		return nil, err
	}
	security := insecure.NewCredentials()
	if secure {
		security = credentials.NewTLS(c.TLS)
	}
	size := int(min(limit, 1<<31-1)) // what gRPC's messages can be
	wait := &Retry{Wait: c.Retry.Wait, MaxWait: c.Retry.MaxWait}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(size), grpc.MaxCallSendMsgSize(1<<31-1), grpc.ForceCodecV2(codec{})),
		grpc.WithDisableRetry(), // Retry knows what may be sent again
		grpc.WithDisableServiceConfig(),
		grpc.WithReadBufferSize(64 << 10),
		grpc.WithWriteBufferSize(64 << 10),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: wait.maxWait()},
			MinConnectTimeout: 20 * time.Second,
		}),
	}
	if c.KeepAlive > 0 {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: c.KeepAlive}))
	}
	if c.Compress != "" {
		z := &compression{name: c.Compress, limit: int64(size)}
		//nolint:staticcheck // what is in the place of these is one table for the whole process, and without a bound
		options = append(options, grpc.WithCompressor(z), grpc.WithDecompressor(expansion{z}))
	}
	g := &overGRPC{c: c, metadata: metadataOf(c.plainHeaders(nil))}
	for range max(c.Connections, 1) {
		conn, err := grpc.NewClient(target, options...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", c.URL, err), g.close())
		}
		g.conns = append(g.conns, conn)
	}
	return g, nil
}

// grpcTarget is what the library calls an address.
func grpcTarget(url string) (target string, secure bool, err error) {
	if path, ok := strings.CutPrefix(url, grpcUnix); ok {
		return "unix:" + path, false, nil
	}
	scheme, host, _ := strings.Cut(url, "://")
	if _, _, err := net.SplitHostPort(host); err != nil {
		return "", false, fmt.Errorf("%s: expected grpc://HOST:PORT, grpcs://HOST:PORT or grpc+unix:/PATH: %w", url, err)
	}
	return "dns:///" + host, scheme == "grpcs", nil
}

func metadataOf(h http.Header) metadata.MD {
	if len(h) == 0 {
		return nil
	}
	md := metadata.MD{}
	for name, values := range h {
		md.Append(strings.ToLower(name), values...)
	}
	return md
}

func (g *overGRPC) close() error {
	var failed []error
	for _, conn := range g.conns {
		failed = append(failed, conn.Close())
	}
	return errors.Join(failed...)
}

func (g *overGRPC) conn() *grpc.ClientConn {
	if len(g.conns) == 1 {
		return g.conns[0]
	}
	return g.conns[int(g.next.Add(1))%len(g.conns)]
}

// with returns a context with the metadata of a call.
func (g *overGRPC) with(ctx context.Context, own http.Header) (context.Context, error) {
	md := g.metadata
	if len(own) > 0 || g.c.Before != nil {
		all, err := g.c.headers(ctx, own)
		if err != nil {
			return nil, err
		}
		md = metadataOf(all)
	}
	if md == nil {
		return ctx, nil
	}
	if outer, ok := metadata.FromOutgoingContext(ctx); ok { // of the program, for its own interceptors
		md = metadata.Join(outer, md)
	}
	return metadata.NewOutgoingContext(ctx, md), nil
}

// answer is what a server sends beside its message.
type answer struct {
	peer            peer.Peer
	header, trailer metadata.MD
}

// invoke makes a unary call of the protocol's service, or of another one where method is
// a whole path; own are headers of this call.
func (g *overGRPC) invoke(ctx context.Context, method string, in mem.BufferSlice, own http.Header) ([]byte, error) {
	var out received
	var a answer
	if method[0] != '/' {
		method = service + method
	}
	with, err := g.with(ctx, own)
	if err != nil {
		return nil, err
	}
	err = g.conn().Invoke(with, method, &in, &out, grpc.Peer(&a.peer), grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	if err != nil {
		return nil, g.failed(ctx, err, &a)
	}
	return out.b, nil
}

// failed tells what the server says, an *Error, from what becomes of connections.
func (g *overGRPC) failed(ctx context.Context, err error, a *answer) error {
	s, _ := status.FromError(err)
	if len(a.header) > 0 || len(a.trailer) > 0 {
		e := &Error{Status: statusOf(s.Code()), Message: s.Message(), Code: s.Code(), grpc: true}
		if values := a.trailer.Get(pushback); len(values) > 0 {
			if ms, err := strconv.ParseUint(values[0], 10, 31); err == nil {
				e.RetryAfter = time.Duration(ms) * time.Millisecond
			}
		}
		return e
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", g.c.URL, context.Cause(ctx))
	case s.Code() == codes.DeadlineExceeded: // the library's clock was first
		return fmt.Errorf("%s: %w", g.c.URL, context.DeadlineExceeded)
	case s.Code() == codes.Unavailable && a.peer.Addr == nil:
		return &connectionError{err: fmt.Errorf("%s: no connection: %s", g.c.URL, s.Message()), unsent: true}
	}
	return &connectionError{err: fmt.Errorf("%s: %w", g.c.URL, err)}
}

// received is a message of the server.
type received struct {
	b        []byte
	streamed bool // it is a ModelStreamInferResponse
}

// codec leaves messages as they are: *mem.BufferSlice to send, *received.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*mem.BufferSlice)
	if !ok {
		return nil, fmt.Errorf("a message of %T", v)
	}
	return *m, nil
}

// Unmarshal copies once, from what the transport uses again, to where the first
// tensor is aligned.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*received)
	if !ok {
		return fmt.Errorf("a message for %T", v)
	}
	if len(data) == 0 {
		return nil
	}
	lead := bounded.Lead(firstTensor(data[0].ReadOnlyData(), m.streamed))
	m.b = make([]byte, lead+data.Len())[lead:]
	data.CopyTo(m.b)
	return nil
}

// compression is an encoding of this client alone.
type compression struct {
	name  string
	limit int64
}

func (z *compression) Type() string { return z.name }

func (z *compression) Do(w io.Writer, p []byte) error {
	b, err := bounded.Compress(z.name, [][]byte{p})
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

type expansion struct{ z *compression }

func (e expansion) Type() string { return e.z.name }

func (e expansion) Do(r io.Reader) ([]byte, error) {
	plain, err := bounded.Expand(e.z.name, r)
	if err != nil {
		return nil, err
	}
	return bounded.ReadAll(plain, -1, e.z.limit, 0)
}
