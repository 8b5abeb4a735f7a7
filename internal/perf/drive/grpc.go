package drive

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"io"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/nesoserve/neso/internal/perf/wire"
)

// The methods of the protocol.
const (
	service      = "/inference.GRPCInferenceService/"
	InferMethod  = service + "ModelInfer"
	StreamMethod = service + "ModelStreamInfer"
)

// grpcConn makes unary calls, or has one call open as a stream of requests.
type grpcConn struct {
	h2
	compression string
	streaming   bool
	decoupled   bool
	open        bool // the stream is

	answer  *Answer
	prefix  [grpcPrefix]byte
	have    int // of the prefix
	left    int // of the message
	message []byte
	done    bool
	failed  *Failure
}

// GRPCOptions say how calls are made.
type GRPCOptions struct {
	Heads       *Heads
	Compression string // gzip, deflate, or "" for none
	// Streaming has one call carry all requests; a decoupled model answers each
	// with responses until one is final.
	Streaming, Decoupled bool
}

// GRPC returns a connection that speaks gRPC and dials with the first request.
func GRPC(d *Dialer, o GRPCOptions) Conn {
	c := &grpcConn{
		h2: h2{stream: stream{dialer: d, protocol: "h2"}, heads: o.Heads}, compression: o.Compression, streaming: o.Streaming,
		decoupled: o.Decoupled,
	}
	c.sink = c.take5
	return c
}

func (c *grpcConn) Do(r *Request, a *Answer) error {
	a.reset()
	begun := Now()
	if c.leaving {
		c.drop()
	}
	fresh, err := c.stream.open()
	if err == nil && fresh {
		c.open = false
		err = c.begin()
	}
	if err == nil {
		err = c.exchange(r, a)
	}
	if c.over(a, err, fresh, begun) {
		return c.Do(r, a)
	}
	return err
}

func (c *grpcConn) exchange(r *Request, a *Answer) error {
	c.answer, c.done, c.failed, c.heard = a, false, nil, false
	if !c.open {
		c.start()
		c.have, c.left, c.message = 0, 0, c.message[:0]
		c.open = c.streaming
	} else {
		c.out = c.out[:0]
	}
	var compressed []byte
	if c.compression != "" {
		compressed = c.compress(r)
	}
	err := c.h2.message(r.Prepared, r, compressed, !c.streaming)
	var at int64
	switch {
	case err != nil:
		return err
	case len(c.out) > 0:
		if a.Sent, err = c.turn(c.out); err != nil {
			return err
		}
		at = Now()
	default:
		a.Sent = Now()
		at = a.Sent
	}
	if err := c.await(a, at); err != nil {
		return err
	}
	if a.Last = Now(); a.First == 0 && c.heard {
		a.First = a.Last
	}
	if c.ended {
		c.open = false
	}
	if c.failed != nil {
		if c.decoupled && c.open {
			return c.forget()
		}
		return c.failed
	}
	if c.ended && (!c.streaming || !c.done) {
		return c.ending()
	}
	return nil
}

// await reads until the request has been answered; at is when what is buffered had come.
// What belongs to the connection may come before the answer.
func (c *grpcConn) await(a *Answer, at int64) error {
	for !c.ended && !c.done {
		if c.r == c.w {
			if err := c.fill(1); err != nil {
				return err
			}
			at = Now()
		}
		if err := c.frame(); err != nil {
			return err
		}
		if a.First == 0 && c.heard {
			a.First = at
		}
	}
	return nil
}

// forget ends the stream of a request that failed while the model may go on to answer
// it: what comes would be taken for answers to the next one.
func (c *grpcConn) forget() error {
	const cancelled = 8
	c.open = false
	b := appendFrame(c.out[:0], frameReset, 0, c.id, 4)
	c.out = binary.BigEndian.AppendUint32(b, cancelled)
	if err := c.flush(); err != nil {
		return err
	}
	return c.failed
}

// ending is what the status of a call that is over says.
func (c *grpcConn) ending() error {
	if c.status == "0" && !c.streaming {
		if c.answer.Responses == 0 {
			return &Failure{Kind: "gRPC without a response"}
		}
		return nil
	}
	if c.status == "" || c.status == "0" {
		return &Failure{Kind: "gRPC stream ended by the server"}
	}
	n, err := strconv.Atoi(c.status)
	if err != nil {
		return &Failure{Kind: c.status, Text: c.detail, Broken: c.status == kindGoAway}
	}
	if n < 0 || n > int(codes.Unauthenticated) {
		return &Failure{Kind: "gRPC status unknown", Text: c.status + " " + c.detail}
	}
	return &Failure{Kind: "gRPC " + codes.Code(n).String(), Text: c.detail}
}

func (c *grpcConn) compress(r *Request) []byte {
	if done := r.Compressed(c.compression); done != nil {
		return done
	}
	return Compress(c.compression, append(r.AppendHead(nil, r.ID, r.Start, r.End), r.Tail...))
}

// Compress returns b compressed by an algorithm of gRPC: gzip or deflate.
func Compress(algorithm string, b []byte) []byte {
	var out bytes.Buffer
	var w io.WriteCloser
	if algorithm == "gzip" {
		w = gzip.NewWriter(&out)
	} else {
		w = zlib.NewWriter(&out)
	}
	_, _ = w.Write(b) // into memory
	_ = w.Close()
	return out.Bytes()
}

// decompress takes a message for one that is compressed as ours are.
func (c *grpcConn) decompress() error {
	var r io.ReadCloser
	var err error
	if c.compression == "gzip" {
		r, err = gzip.NewReader(bytes.NewReader(c.message))
	} else {
		r, err = zlib.NewReader(bytes.NewReader(c.message))
	}
	if err == nil {
		c.message, err = io.ReadAll(io.LimitReader(r, maxAnswer+1))
	}
	if err == nil && len(c.message) > maxAnswer {
		return tooLong()
	}
	return err
}

// take5 takes messages apart, each behind five bytes that say how long it is.
func (c *grpcConn) take5(b []byte) error {
	for len(b) > 0 {
		if c.have < grpcPrefix { // what follows may be empty
			n := copy(c.prefix[c.have:], b)
			c.have += n
			b = b[n:]
			if c.have < grpcPrefix {
				return nil
			}
			c.left = int(binary.BigEndian.Uint32(c.prefix[1:]))
			c.message = c.message[:0]
			if c.keeps() && c.left > maxAnswer {
				return tooLong()
			}
		}
		n := min(c.left, len(b))
		if c.keeps() {
			c.message = append(c.message, b[:n]...)
		}
		b, c.left = b[n:], c.left-n
		if c.left > 0 {
			return nil
		}
		c.have = 0
		if c.prefix[0] != 0 && c.keeps() {
			if err := c.decompress(); err != nil {
				return malformed("a message compressed by %s: %v", c.compression, err)
			}
		}
		if err := c.whole(); err != nil {
			return err
		}
	}
	return nil
}

func (c *grpcConn) keeps() bool { return c.answer.Keep || c.streaming }

// whole acts on a message that has come in whole.
func (c *grpcConn) whole() error {
	body := c.message
	if c.streaming {
		var text string
		var final bool
		body, text, final = wire.StreamResponse(c.message)
		switch {
		case text != "":
			c.failed, c.done = &Failure{Kind: "error in the stream", Text: text}, true
			return nil
		case !c.decoupled || final:
			c.done = true
		}
		if final && c.decoupled && wire.Empty(body) {
			return nil // it says only that this was all
		}
	}
	if c.answer.Keep && !c.answer.keep(body) {
		return tooLong()
	}
	c.answer.response(Now())
	return nil
}
