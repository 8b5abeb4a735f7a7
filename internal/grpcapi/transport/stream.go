package transport

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// stream is one call. It implements grpc.ServerStream.
type stream struct {
	c      *conn
	id     uint32
	method *method
	ctx    callContext
	outer  context.Context     // what Tap has made of ctx, or nil
	fields []hpack.HeaderField // metadata of the client
	// encoding is how the client compresses; sendEncoding how answers are.
	encoding, sendEncoding string

	in     incoming      // of the reader while filling is set, else guarded by conn.mu
	arrive chan struct{} // something has come; of methods with streams only

	onReader bool // its handler runs on the reader
	began    int64
	company  bool // the client has sent more meanwhile
	slow     bool // it took very long

	// What a unary call needs one of, so that it is not made each time.
	small   mem.SliceBuffer // the buffer of a small message
	whole   [1]mem.Buffer   // the list of its one buffer
	payload payload         // the answer

	// Guarded by conn.mu.
	inbox      inbox
	send       int64 // what the client takes
	window     int64 // what the client may send
	extra      int64 // of window, beyond the usual, for a large message
	consumed   int64 // taken by the handler and not given back to window yet
	held       int64 // of Server.buffered
	begun      bool  // the handler runs, or has
	clientDone bool  // nothing more comes
	deaf       bool  // what comes is not wanted
	filling    bool  // the reader is in what in holds
	headSent   bool
	finished   bool // the status is out
	reset      bool // nothing can be written any more

	// Of the handler's goroutines, one at a time.
	sendMu          sync.Mutex
	header, trailer metadata.MD
	reply           *payload // of a unary call, sent with the status
	afterSend       func()   // nil for none; used by the handler's goroutine only
	timer           *time.Timer
	md              metadata.MD
	mdOnce          sync.Once
}

// inbox are messages that wait for the handler. The first needs no list.
type inbox struct {
	first message
	rest  []message
	n     int
}

func (b *inbox) push(m message) {
	if b.n == 0 {
		b.first = m
	} else {
		b.rest = append(b.rest, m)
	}
	b.n++
}

func (b *inbox) pop() message {
	m := b.first
	if b.n--; b.n > 0 {
		b.first = b.rest[0]
		b.rest[0] = message{}
		if b.rest = b.rest[1:]; len(b.rest) == 0 {
			b.rest = nil
		}
	} else {
		b.first = message{}
	}
	return m
}

// open begins a call whose headers have come.
func (c *conn) open(f frameHead) error {
	h := &c.head
	st := &stream{c: c, id: f.stream, encoding: h.encoding, window: int64(c.s.o.StreamWindow), clientDone: f.flags&flagEndStream != 0}
	st.ctx.st = st
	st.fields = c.fields
	// Before others see the stream, or its deadline: they wake who waits there.
	if m := c.s.methods[h.path]; m != nil && m.streams {
		st.arrive = make(chan struct{}, 1)
	}
	c.mu.Lock()
	if refused := c.settled && f.stream > c.last || c.handlers >= c.s.o.MaxStreams || len(c.streams) >= c.s.o.MaxStreams; refused || c.closed {
		c.mu.Unlock()
		return c.control(func(b []byte) []byte { return appendReset(b, f.stream, codeRefusedStream) })
	}
	if !c.settled {
		c.last = f.stream
	}
	st.send = c.streamSend
	c.streams[st.id] = st
	c.mu.Unlock()
	if httpStatus, s := c.judge(st); s != nil {
		c.answer(st, httpStatus, s)
		return nil
	}
	begin := st.method.streams || st.clientDone
	if begin {
		c.mu.Lock()
		st.begun = true
		c.handlers++
		c.mu.Unlock()
		c.s.start(st)
	}
	return nil
}

// judge checks the headers of a call. It returns a status for one that is
// refused.
func (c *conn) judge(st *stream) (int, *status.Status) {
	h := &c.head
	switch {
	case h.bad != "":
		return 200, status.New(codes.Internal, h.bad)
	case h.method != "POST":
		return 405, status.New(codes.Internal, fmt.Sprintf("Received a HEADERS frame with :method %q which should be POST", h.method))
	case !isGRPC(h.contentType):
		return 415, status.New(codes.Unknown, fmt.Sprintf("invalid gRPC request content-type %q", h.contentType))
	}
	if st.method = c.s.methods[h.path]; st.method == nil {
		return 200, c.s.unknown(h.path)
	}
	if h.timeout != "" {
		d, err := parseTimeout(h.timeout)
		if err != nil {
			return 200, status.New(codes.Internal, "malformed grpc-timeout: "+err.Error())
		}
		st.ctx.deadline = time.Now().Add(d)
		c.mu.Lock()
		st.timer = time.AfterFunc(d, st.expire)
		c.mu.Unlock()
	}
	if c.s.o.Tap != nil {
		ctx, err := c.s.o.Tap(&st.ctx, &tap.Info{FullMethodName: h.path, Header: st.metadata()})
		if err != nil {
			s, ok := status.FromError(err)
			if !ok {
				s = status.New(codes.PermissionDenied, err.Error())
			}
			return 200, s
		}
		if ctx != &st.ctx {
			st.outer = ctx
		}
	}
	return 0, nil
}

// unknown says what a path does not name.
func (s *Server) unknown(path string) *status.Status {
	service, name, ok := splitPath(path)
	switch {
	case !ok:
		return status.New(codes.Unimplemented, fmt.Sprintf("malformed method name: %q", path))
	case s.services[service]:
		return status.New(codes.Unimplemented, fmt.Sprintf("unknown method %v for service %v", name, service))
	}
	return status.New(codes.Unimplemented, fmt.Sprintf("unknown service %v", service))
}

func splitPath(path string) (service, name string, ok bool) {
	if path == "" || path[0] != '/' {
		return "", "", false
	}
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[1:i], path[i+1:], true
		}
	}
	return "", "", false
}

// trailers are headers behind the messages: the end of what the client sends.
func (c *conn) trailers(f frameHead) error {
	st := c.lookup(f.stream)
	if st == nil {
		return nil // it has ended
	}
	if f.flags&flagEndStream == 0 {
		return fault(codeProtocol, "headers of a call come twice")
	}
	c.halfClosed(st)
	return nil
}

// deadlineGrace is how much longer a handler may take than its call's deadline
// before the call is answered for it. What is queued has left by then, with the
// same status.
const deadlineGrace = time.Second

// expire ends a call whose time is up.
func (st *stream) expire() {
	st.ctx.cancel(context.DeadlineExceeded)
	st.signal() // a handler of streams may wait for the client
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if !st.finished && !st.reset {
		st.timer = time.AfterFunc(deadlineGrace, func() {
			st.c.answer(st, 200, status.New(codes.DeadlineExceeded, "Deadline Exceeded"))
		})
	}
}

// refuse answers a call that cannot go on, before or beside its handler.
func (c *conn) refuse(st *stream, s *status.Status) {
	st.ctx.cancel(context.Canceled)
	c.answer(st, 200, s)
	st.signal()
}

// answer sends the status of a call, once.
func (c *conn) answer(st *stream, httpStatus int, s *status.Status) {
	c.mu.Lock()
	c.finishLocked(st, httpStatus, s)
	c.kickLocked()
	c.mu.Unlock()
}

// finishLocked appends the status of a call to out, if it has none yet.
func (c *conn) finishLocked(st *stream, httpStatus int, s *status.Status) {
	if !st.finished && c.openLocked(st) {
		place := len(c.out)
		c.out = append(c.out, make([]byte, frameHeaderSize)...)
		if !st.headSent {
			c.out = c.table.appendHead(c.out, httpStatus)
			c.out = appendMetadata(c.out, st.header)
		}
		c.out = appendStatus(c.out, &c.table, s, st.trailer)
		c.out = appendHeaders(c.out, place, st.id, true, c.maxFrame)
		if !st.clientDone {
			c.out = appendReset(c.out, st.id, codeNone) // it need not send the rest
		}
	}
	st.finished, st.headSent = true, true
	c.endLocked(st)
}

// endLocked lets go of what a stream holds. Its handler may still run.
func (c *conn) endLocked(st *stream) {
	st.deaf, st.reset = true, true
	if !st.filling {
		st.letGoLocked()
	}
	for st.inbox.n > 0 {
		st.dropLocked(st.inbox.pop())
	}
	if st.timer != nil {
		st.timer.Stop()
	}
	c.forgetLocked(st)
	c.changed.Broadcast()
}

// resetLocked ends a stream that the client has broken.
func (c *conn) resetLocked(st *stream, code errorCode) {
	c.out = appendReset(c.out, st.id, code)
	c.kickLocked()
	c.endLocked(st)
	go st.abort(context.Canceled) // takes the lock of the context, and calls others
}

// cancelByClient ends a call that the client does not want any more.
func (st *stream) cancelByClient() {
	st.c.mu.Lock()
	st.c.endLocked(st)
	st.c.mu.Unlock()
	st.abort(context.Canceled)
}

// abort ends the context of a call, and whatever waits for the client.
func (st *stream) abort(err error) {
	c := st.c
	c.mu.Lock()
	c.endLocked(st)
	c.mu.Unlock()
	st.ctx.cancel(err)
	st.signal()
}

// dropLocked frees a message.
func (st *stream) dropLocked(m message) {
	m.parts.Free()
	st.releaseLocked(&m)
}

func (st *stream) releaseLocked(m *message) {
	if m.large && st.held >= int64(m.size) {
		st.held -= int64(m.size)
		st.c.s.buffered.Add(-int64(m.size))
	}
}

// signal wakes a handler that waits for messages.
func (st *stream) signal() {
	if st.arrive == nil {
		return
	}
	select {
	case st.arrive <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// run is the life of the handler.
func (st *stream) run() {
	c := st.c
	err := st.call()
	if st.onReader {
		st.look()
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	st.sendMu.Lock()
	reply := st.reply
	st.reply = nil
	c.mu.Lock()
	c.handlers--
	if reply != nil && s.Code() == codes.OK {
		c.sendLocked(st, st.head(), reply, s)
	}
	c.finishLocked(st, 200, s)
	c.flushLocked()
	c.mu.Unlock()
	st.sendMu.Unlock()
	if reply != nil {
		reply.parts.Free()
	}
	if st.afterSend != nil {
		st.afterSend()
	}
	st.ctx.cancel(context.Canceled)
	st.signal() // for those who still wait for messages
}

// call calls the handler. One that panics fails its call, not the server.
func (st *stream) call() (err error) {
	defer func() {
		if p := recover(); p != nil {
			st.c.s.o.Logger.Error("a handler panicked", "method", st.method.name, "panic", p, "stack", string(debug.Stack()))
			err = status.Errorf(codes.Internal, "internal error: %v", p)
		}
	}()
	m := st.method
	if m.stream != nil {
		return m.stream.Handler(m.impl, st)
	}
	reply, err := m.unary.Handler(m.impl, st.Context(), st.RecvMsg, nil)
	if err != nil {
		return err
	}
	return st.SendMsg(reply)
}

// Context implements grpc.ServerStream.
func (st *stream) Context() context.Context {
	if st.outer != nil {
		return st.outer
	}
	return &st.ctx
}

func (st *stream) metadata() metadata.MD {
	st.mdOnce.Do(func() { st.md = metadataOf(st.fields) })
	return st.md
}

// RecvMsg implements grpc.ServerStream.
func (st *stream) RecvMsg(v any) error {
	m, err := st.take()
	if err == io.EOF && !st.method.streams { //nolint:errorlint // made below
		return status.Error(codes.Internal, "a unary call without a message")
	}
	if err != nil {
		return err
	}
	defer m.parts.Free()
	data := m.parts
	if m.compressed {
		if data, err = st.decompress(data); err != nil {
			return err
		}
		defer data.Free()
	}
	if err := st.c.s.o.Codec.Unmarshal(data, v); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}

// take waits for the next message.
func (st *stream) take() (message, error) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for st.inbox.n == 0 {
		switch {
		case st.ctx.Err() != nil:
			return message{}, status.FromContextError(st.ctx.Err()).Err()
		case st.clientDone || st.deaf:
			return message{}, io.EOF
		}
		c.mu.Unlock()
		<-st.arrive // signalled at the end of the call, too
		c.mu.Lock()
	}
	m := st.inbox.pop()
	st.releaseLocked(&m)
	st.giveBackLocked(int64(m.size) + prefixSize)
	return m, nil
}

// giveBackLocked lets the client send as much again, on a stream that goes on.
func (st *stream) giveBackLocked(n int64) {
	c := st.c
	own := min(st.extra, n)
	st.extra -= own
	if st.consumed += n - own; st.clientDone || st.deaf || st.consumed < int64(c.s.o.StreamWindow)/4 {
		return
	}
	st.window += st.consumed
	c.out = appendWindowUpdate(c.out, st.id, st.consumed)
	st.consumed = 0
	c.kickLocked()
}

var _ grpc.ServerStream = (*stream)(nil)
