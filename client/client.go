package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/client/internal/bounded"
)

// maxAnswer bounds what is read of an answer that holds no tensors, in bytes.
const maxAnswer = 64 << 20

// Client is a connection to one server. Its methods are safe for concurrent use and
// return an *Error when the server answered with one. Its fields are read by the
// first call, and must not be changed afterwards.
type Client struct {
	// URL is the server's address with scheme, without a path at its end other than
	// that of a proxy in front (HTTP only): "http://localhost:8000". The schemes are
	// http, https, grpc, grpcs (with TLS), and grpc+unix, which a path follows.
	URL string
	// Header is added to every request: keys of restricted APIs, credentials. Over
	// gRPC it is the metadata of each call.
	Header http.Header
	// Query is added to the URL of every request over HTTP.
	Query url.Values
	// Before, if set, is called before each attempt of a call, with its headers, over gRPC
	// its metadata, and may change them: for credentials that change. An error ends the call.
	// Calls at once call it at once.
	Before func(ctx context.Context, header http.Header) error
	// Key is sent as "Authorization: Bearer <Key>" unless Header has that.
	Key string
	// TLS is for https and grpcs: whom to trust, as whom to come. Default: the
	// certificates of the system. See TLSFiles.
	TLS *tls.Config
	// HTTP makes the requests over HTTP; default one with a pool of connections of
	// its own. Where it is set TLS, KeepAlive and Connections are its business.
	HTTP *http.Client
	// Compress is how requests are compressed: "gzip" or, over HTTP, "deflate".
	// Default: not at all. Tensors of small integers and texts shrink, those of
	// floating-point numbers hardly. Over gRPC answers may be compressed then, too.
	Compress string
	// CompressAnswers asks for compressed answers over HTTP: "gzip" or "deflate".
	CompressAnswers string
	// Retry says how often requests that the server did not take up are sent; the
	// default is once.
	Retry Retry
	// MaxAnswer bounds an answer with tensors, in bytes, compressed or not; default
	// 2 GiB. A server that sends more is an error.
	MaxAnswer int64
	// Connections is how many connections there may be at once: over HTTP, where each
	// has one request at a time, default any number; over gRPC, where many share one,
	// default 1.
	Connections int
	// KeepAlive is after how long without a sign of the server it is asked for one,
	// while calls wait (gRPC), or the connection is open (TCP). Default: never over
	// gRPC, where servers may refuse what asks more often than each five minutes.
	KeepAlive time.Duration

	once  sync.Once
	way   transport
	fault error
}

// New returns a client of the server at address: "host:port" or a URL for HTTP,
// "unix:/path" for HTTP over a Unix socket, "grpc://host:port", "grpcs://host:port"
// or "grpc+unix:/path" for gRPC.
func New(address string) *Client {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		dialer := &net.Dialer{}
		transport := pool(0)
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
		return &Client{URL: "http://localhost", HTTP: &http.Client{Transport: transport}}
	}
	if !strings.Contains(address, "://") && !strings.HasPrefix(address, grpcUnix) {
		address = "http://" + address
	}
	return &Client{URL: strings.TrimRight(address, "/")}
}

// Close closes idle connections over HTTP, and all over gRPC, whose calls fail. A
// Client that is not closed lets go of idle HTTP connections after 90 seconds.
func (c *Client) Close() error {
	c.once.Do(func() { c.fault = fmt.Errorf("the client is closed") })
	if c.way == nil {
		return nil
	}
	return c.way.close()
}

// transport returns the way to the server.
func (c *Client) transport() (transport, error) {
	c.once.Do(func() { c.way, c.fault = c.open() })
	return c.way, c.fault
}

func (c *Client) open() (transport, error) {
	if !bounded.Known(c.Compress) || !bounded.Known(c.CompressAnswers) {
		return nil, fmt.Errorf("unknown compression %q, %q, expected %q or %q", c.Compress, c.CompressAnswers, bounded.Gzip, bounded.Deflate)
	}
	limit := c.MaxAnswer
	if limit <= 0 {
		limit = defaultMaxAnswer
	}
	switch scheme, _, _ := strings.Cut(c.URL, ":"); scheme {
	case "grpc", "grpcs", "grpc+unix":
		g, err := openGRPC(c, limit)
		if err != nil {
			return nil, err
		}
		return g, nil
	}
	return openHTTP(c, limit), nil
}

const defaultMaxAnswer = 1<<31 - 1

// headers are those of a request: of the client, with the key, and of the request
// itself, which win; Before has the last word.
func (c *Client) headers(ctx context.Context, own http.Header) (http.Header, error) {
	all := c.plainHeaders(own)
	if c.Before == nil {
		return all, nil
	}
	all = all.Clone() // what it changes is that of this request
	if err := c.Before(ctx, all); err != nil {
		return nil, fmt.Errorf("before a call: %w", err)
	}
	return all, nil
}

func (c *Client) plainHeaders(own http.Header) http.Header {
	all := http.Header{}
	if c.Key != "" {
		all.Set("Authorization", "Bearer "+c.Key)
	}
	for _, h := range []http.Header{c.Header, own} {
		maps.Copy(all, h)
	}
	return all
}
