package transport

import (
	"errors"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/grpcapi/transport/header"
	"github.com/nesoserve/neso/internal/ledger"
)

// head returns what appends the headers of an answer, nil when they are out.
// Callers hold conn.mu when they call it and what it returns.
func (st *stream) head() func(b []byte) []byte {
	if st.headSent {
		return nil
	}
	return func(b []byte) []byte {
		c := st.c
		st.headSent = true
		start := len(b)
		b = append(b, make([]byte, frameHeaderSize)...)
		b = c.table.AppendHead(b, 200, header.ContentType)
		if st.sendEncoding != "" {
			b = header.AppendField(b, "grpc-encoding", st.sendEncoding)
		}
		b = header.AppendMetadata(b, st.header)
		return appendHeaders(b, start, st.id, false, c.maxFrame)
	}
}

// SetHeader implements grpc.ServerStream.
func (st *stream) SetHeader(md metadata.MD) error {
	st.sendMu.Lock()
	defer st.sendMu.Unlock()
	st.header = metadata.Join(st.header, md)
	return nil
}

// SendHeader implements grpc.ServerStream.
func (st *stream) SendHeader(md metadata.MD) error {
	if err := st.SetHeader(md); err != nil {
		return err
	}
	return st.transmit(nil, false)
}

// SetTrailer implements grpc.ServerStream.
func (st *stream) SetTrailer(md metadata.MD) {
	st.sendMu.Lock()
	defer st.sendMu.Unlock()
	st.trailer = metadata.Join(st.trailer, md)
}

// SendMsg implements grpc.ServerStream. The answer of a unary call leaves with
// its status.
func (st *stream) SendMsg(v any) error { return st.sendMsg(v, false) }

// SendLater implements Later.
func (st *stream) SendLater(v any) error { return st.sendMsg(v, true) }

// Flush implements Later.
func (st *stream) Flush() {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if len(st.c.out) > 0 {
		st.c.flushLocked()
	}
}

func (st *stream) sendMsg(v any, later bool) error {
	p, err := st.encode(v)
	if err != nil {
		st.letGo()
		return err
	}
	if !st.method.streams {
		st.sendMu.Lock()
		defer st.sendMu.Unlock()
		if st.reply != nil {
			p.parts.Free()
			return status.Error(codes.Internal, "a unary call has one answer")
		}
		st.reply = p
		return nil
	}
	p.held, st.held = st.held, ledger.Room{}
	defer func() {
		p.parts.Free()
		st.held = p.held // it was small, or not sent
		st.letGo()
	}()
	return st.transmit(p, later)
}

// Holds implements Held.
func (st *stream) Holds(room ledger.Room) { st.held = room }

// letGo gives back what a message holds that was not adopted.
func (st *stream) letGo() {
	st.held.Give(st.c.s.o.Ledger)
	st.held = ledger.Room{}
}

// key is whose share of the ledger the answers are, nil for nobody's.
func (st *stream) key() *ledger.Share {
	if key := st.c.s.o.Key; key != nil && st.outer != nil {
		return key(st.outer)
	}
	return nil
}

// transmit sends headers that are not out yet, and a message.
func (st *stream) transmit(p *payload, later bool) error {
	st.sendMu.Lock()
	defer st.sendMu.Unlock()
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := c.sendLocked(st, st.head(), p, nil)
	if !later || len(c.out) > keepOut/2 {
		c.flushLocked()
	}
	if sent {
		return nil
	}
	if err := st.ctx.Err(); err != nil {
		return Ended(err).Err()
	}
	return status.Error(codes.Unavailable, "transport is closing")
}

// encode makes a message of v.
func (st *stream) encode(v any) (*payload, error) {
	parts, err := st.c.s.o.Codec.Marshal(v)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	p := &st.payload
	if st.method.streams || p.parts != nil {
		p = new(payload)
	}
	*p = payload{parts: parts, size: parts.Len()}
	if name := st.sendEncoding; name != "" && name != encoding.Identity {
		if p, err = compress(st.c.s.o.Compressors[name], p); err != nil {
			return nil, err
		}
	}
	if p.size > st.c.s.o.MaxSend {
		p.parts.Free()
		return nil, status.Errorf(codes.ResourceExhausted, "grpc: trying to send message larger than max (%d vs. %d)", p.size, st.c.s.o.MaxSend)
	}
	return p, nil
}

// compress consumes a message and returns it compressed.
func compress(c encoding.Compressor, p *payload) (*payload, error) {
	defer p.parts.Free()
	var out mem.BufferSlice
	w := mem.NewWriter(&out, mem.DefaultBufferPool())
	z, err := c.Compress(w)
	if err == nil {
		for _, b := range p.parts {
			if _, err = z.Write(b.ReadOnlyData()); err != nil {
				break
			}
		}
		err = errors.Join(err, z.Close())
	}
	if err != nil {
		out.Free()
		return nil, status.Errorf(codes.Internal, "grpc: error while compressing: %v", err)
	}
	return &payload{parts: out, size: out.Len(), compressed: true}, nil
}

// Stream is a call as its handler sees it, whatever transport it came by.
type Stream interface {
	grpc.ServerStream
	Later
	Held
	Sent
	Compression
}

// StreamOf returns the stream that a handler of a grpc.ServiceDesc is given.
func StreamOf(s grpc.ServerStream) Stream { return s.(Stream) }

// Later is how a handler of streams sends several messages in one piece.
type Later interface {
	// SendLater is SendMsg for a message that may wait for the next one.
	SendLater(m any) error
	// Flush sends what SendLater has kept; it has to follow.
	Flush()
}

// Held is how a handler of streams hands over what it has counted of an answer
// that waited: it keeps its place on the ledger until the client has taken it.
type Held interface {
	// Holds says what has been counted of the next message. Whatever becomes of that,
	// it is given back.
	Holds(room ledger.Room)
}

// Sent is how a handler learns when the answer of its call has left.
type Sent interface {
	// AfterSend has f called once the answer and its status have been given to the
	// kernel, or to whoever is writing to the connection at that time; also when the
	// client is gone.
	AfterSend(f func())
}

// AfterSend implements Sent.
func (st *stream) AfterSend(f func()) { st.afterSend = f }

// Compression is what a handler may know and choose of a call's stream.
type Compression interface {
	// Accepts are the encodings that the client can read.
	Accepts() []string
	// SetSendCompress chooses one of Options.Compressors for the answers, before the
	// first.
	SetSendCompress(name string)
}

// Accepts implements Compression.
func (st *stream) Accepts() []string {
	for _, f := range st.fields {
		if f.Name == "grpc-accept-encoding" {
			names := strings.Split(f.Value, ",")
			for i := range names {
				names[i] = strings.TrimSpace(names[i])
			}
			return names
		}
	}
	return nil
}

// SetSendCompress implements Compression.
func (st *stream) SetSendCompress(name string) {
	if name == encoding.Identity {
		name = ""
	}
	st.sendEncoding = name
}

var _ Stream = (*stream)(nil)
