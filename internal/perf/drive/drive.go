// Package drive owns the connections of the load generator: each belongs to one
// goroutine, has at most one request under way, sends bytes that were encoded
// before, and allocates nothing for a request. Open drive.go first, then http.go
// and http2.go.
package drive

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nesoserve/neso/internal/perf/wire"
)

// base is what Now counts from.
var base = time.Now()

// Now is the time in nanoseconds on the monotonic clock, counted from the start of
// the process.
func Now() int64 { return int64(time.Since(base)) }

// Request is one request that is to be sent.
type Request struct {
	*wire.Prepared
	ID         uint64 // of its sequence
	Start, End bool
}

// Answer is what came of a request. The caller keeps one for each connection and
// fills the fields that say what it wants.
type Answer struct {
	// Keep asks for Body, Times for At.
	Keep, Times bool
	// OnResponse, if set, is called with the number of each response, from 1 on.
	OnResponse func(n int)

	// Sent is when the request had been written, First when the first byte of the
	// answer came, Last when the last had come.
	Sent, First, Last int64
	Responses         int
	FirstResponse     int64 // when the first response had come whole
	// Body holds the last response, with Times all of them one behind the other: of HTTP
	// the body, of gRPC the messages, of which Ends says where each one ends. It is valid
	// until the next request. Header is how much of HTTP's is JSON, -1 if all is.
	Body   []byte
	Ends   []int
	Header int
	// At has the time of each response.
	At []int64
}

func (a *Answer) reset() {
	a.Sent, a.First, a.Last, a.Responses, a.Header = 0, 0, 0, 0, -1
	a.Body, a.Ends, a.At = a.Body[:0], a.Ends[:0], a.At[:0]
}

// keep keeps a response beside those before it, or in their place; false says that they
// are too long.
func (a *Answer) keep(body []byte) bool {
	if !a.Times {
		a.Body, a.Ends = a.Body[:0], a.Ends[:0]
	}
	if len(a.Body)+len(body) > maxAnswer {
		return false
	}
	a.Body = append(a.Body, body...)
	a.Ends = append(a.Ends, len(a.Body))
	return true
}

// LastBody is the last of the responses in Body.
func (a *Answer) LastBody() []byte {
	if n := len(a.Ends); n > 1 {
		return a.Body[a.Ends[n-2]:]
	}
	return a.Body
}

// ended is when a request was over that came to err.
func (a *Answer) ended(err error) int64 {
	if err != nil {
		return Now()
	}
	return a.Last
}

// response counts a response that has come in whole.
func (a *Answer) response(now int64) {
	if a.Responses++; a.Responses == 1 {
		a.FirstResponse = now
	}
	if a.Times {
		a.At = append(a.At, now)
	}
	if a.OnResponse != nil {
		a.OnResponse(a.Responses)
	}
}

// Conn sends requests, one after the other.
type Conn interface {
	// Do sends r and waits for its last response. An error is a *Failure. After one
	// that is Broken the connection dials anew with the next request.
	Do(r *Request, a *Answer) error
	// Close ends the connection; a request under way fails. It may be called from
	// another goroutine, and twice.
	Close() error
}

// Failure is a request that failed. Kind is the same for failures of one cause.
type Failure struct {
	Kind, Text string
	Broken     bool
}

func (f *Failure) Error() string {
	if f.Text == "" {
		return f.Kind
	}
	return f.Kind + ": " + f.Text
}

// Dialer is where the connections go.
type Dialer struct {
	// Address is host:port, or unix:/path.
	Address string
	TLS     *tls.Config // nil without encryption
	// Timeout bounds how long a connection may take to be made.
	Timeout time.Duration
}

func (d *Dialer) dial(ctx context.Context, protocol string) (net.Conn, error) {
	network, address := "tcp", d.Address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, &Failure{Kind: "cannot connect", Text: cause(err), Broken: true}
	}
	if d.TLS == nil {
		return c, nil
	}
	config := d.TLS.Clone()
	config.NextProtos = []string{protocol}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(d.Address)
	}
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, &Failure{Kind: "TLS", Text: err.Error(), Broken: true}
	}
	return secure, nil
}

// cause is the part of a network error that says what happened.
func cause(err error) string {
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err
	}
	if system, ok := errors.AsType[*os.SyscallError](err); ok {
		err = system.Err
	}
	return err.Error()
}

// Kinds of failures that more than one place looks at.
const (
	kindClosed  = "connection closed by the server"
	kindReset   = "connection reset by the server"
	kindStopped = "stopped"
	kindGoAway  = "GOAWAY"
)

// lost is the failure of a connection that ended under a request.
func lost(err error) *Failure {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Failure{Kind: kindClosed, Broken: true}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &Failure{Kind: kindReset, Broken: true}
	case errors.Is(err, net.ErrClosed):
		return &Failure{Kind: kindStopped, Broken: true}
	}
	return &Failure{Kind: "connection lost", Text: cause(err), Broken: true}
}

// malformed is the failure of an answer that is not of the protocol.
func malformed(format string, args ...any) *Failure {
	return &Failure{Kind: "malformed answer", Text: fmt.Sprintf(format, args...), Broken: true}
}

// maxAnswer bounds what is kept of one answer, in bytes; what is not kept may be longer.
const maxAnswer = 1 << 30

// tooLong is the failure of an answer that is to be kept and is longer than that.
func tooLong() *Failure { return malformed("an answer of more than %d bytes", maxAnswer) }

// scratch is how many bytes of a request are copied together to be written at once.
const scratch = 16 << 10
