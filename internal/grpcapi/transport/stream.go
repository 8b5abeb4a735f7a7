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

	"github.com/nesoserve/neso/internal/ledger"
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

	left   int64         // of the content-length, or -1; of the reader
	status int           // of HTTP, for a request that is no call: see plain.go
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
	send       int64     // what the client takes
	window     int64     // what the client may send
	extra      int64     // of window, beyond the usual, for a large message
	consumed   int64     // taken by the handler and not given back to window yet
	ahead      int64     // of conn.ahead
	kept       int64     // on the ledger until the handler returns
	start, due time.Time // since when a message is coming, and when it has to be there; zero for none, see slow.go
	came       int64     // of that message
	begun      bool      // the handler runs, or has
	returned   bool      // the handler has
	orphan     bool      // counted in conn.orphans
	clientDone bool      // nothing more comes
	deaf       bool      // what comes is not wanted
	filling    bool      // the reader is in what in holds
	headSent   bool
	finished   bool // the status is out
	reset      bool // nothing can be written any more
	// Of the sender that waits.
	wake           chan struct{}
	writing        bool // it is the one that writes
	line           *line
	before, behind *stream

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
	st := &stream{c: c, id: f.stream, encoding: h.encoding, window: int64(c.s.o.StreamWindow), left: h.length, clientDone: f.flags&flagEndStream != 0}
	if st.clientDone && h.length > 0 {
		return c.resetUnknown(f.stream, codeProtocol)
	}
	st.ctx.st = st
	st.fields = c.fields
	// Before others see the stream, or its deadline: they wake who waits there.
	if m := c.s.methods[h.path]; m != nil && m.streams {
		st.arrive = make(chan struct{}, 1)
	}
	c.mu.Lock()
	if refused := c.settled && f.stream > c.last || c.handlers >= c.s.o.MaxStreams || len(c.streams) >= c.s.o.MaxStreams || c.orphans >= maxOrphans; refused || c.closed {
		c.mu.Unlock()
		if err := c.spend(costFrame); err != nil {
			return err
		}
		return c.control(func(b []byte) []byte { return appendReset(b, f.stream, codeRefusedStream) })
	}
	if !c.settled {
		c.last = f.stream
	}
	st.send = c.streamSend
	c.streams[st.id] = st
	c.mu.Unlock()
	if s := c.judge(st); s != nil {
		c.answer(st, s)
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
func (c *conn) judge(st *stream) *status.Status {
	h := &c.head
	switch {
	case h.size > maxHeaderList:
		return status.New(codes.ResourceExhausted, fmt.Sprintf("the metadata of the call has %d bytes, at most %d", h.size, maxHeaderList))
	case h.method != "POST":
		st.method, st.status = &notPost, 405
		return nil
	case !isGRPC(h.contentType):
		st.method, st.status = &notGRPC, 415
		return nil
	}
	if st.method = c.s.methods[h.path]; st.method == nil {
		return c.s.unknown(h.path)
	}
	if h.timeout != "" {
		d, err := parseTimeout(h.timeout)
		if err != nil {
			return status.New(codes.Internal, "malformed grpc-timeout: "+err.Error())
		}
		st.ctx.deadline = time.Now().Add(d)
		c.mu.Lock()
		if !st.reset {
			st.timer = c.s.after(d, st.expire)
		}
		c.mu.Unlock()
	}
	if c.s.o.Tap != nil {
		ctx, err := c.s.o.Tap(&st.ctx, &tap.Info{FullMethodName: h.path, Header: st.metadata()})
		if err != nil {
			s, ok := status.FromError(err)
			if !ok {
				s = status.New(codes.PermissionDenied, err.Error())
			}
			return s
		}
		if ctx != &st.ctx {
			st.outer = ctx
		}
	}
	return nil
}

// unknown says what a path does not name.
func (s *Server) unknown(path string) *status.Status {
	if len(path) > maxEcho { // an answer must not be much longer than its request
		path = path[:maxEcho]
	}
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
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.streams[f.stream]
	switch {
	case st == nil:
		return c.history.late(f.stream)
	case st.clientDone:
		return c.resetLocked(st, codeStreamClosed)
	case f.flags&flagEndStream == 0, c.head.pseudo != 0, c.head.malformed != "", st.left > 0:
		return c.resetLocked(st, codeProtocol)
	}
	c.history.end(f.stream)
	c.halfClosedLocked(st)
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
		st.timer = st.c.s.after(deadlineGrace, func() {
			st.c.answer(st, status.New(codes.DeadlineExceeded, "Deadline Exceeded"))
		})
	}
}

// refuse answers a call that cannot go on, before or beside its handler.
func (c *conn) refuse(st *stream, s *status.Status) {
	st.ctx.cancel(context.Canceled)
	c.answer(st, s)
	st.signal()
}

// answer sends the status of a call, once.
func (c *conn) answer(st *stream, s *status.Status) {
	c.mu.Lock()
	c.finishLocked(st, s)
	c.kickLocked()
	c.mu.Unlock()
}

// finishLocked appends the status of a call to out, if it has none yet.
func (c *conn) finishLocked(st *stream, s *status.Status) {
	if !st.finished && c.openLocked(st) {
		place := len(c.out)
		c.out = append(c.out, make([]byte, frameHeaderSize)...)
		if !st.headSent {
			c.out = c.table.appendHead(c.out, 200, grpcType)
			c.out = appendMetadata(c.out, st.header)
		}
		c.out = appendStatus(c.out, &c.table, s, st.trailer)
		c.out = appendHeaders(c.out, place, st.id, true, c.maxFrame)
		if !st.clientDone {
			c.out = appendReset(c.out, st.id, codeNone) // it need not send the rest
		}
		c.earnLocked(creditCall)
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
	c.s.stopTimer(st.timer)
	st.timer = nil
	if st.begun && !st.returned && !st.orphan {
		st.orphan = true
		c.orphans++
	}
	c.forgetLocked(st)
	st.wakeLocked()
}

// maxOrphans bounds the handlers of a connection that have not noticed yet that
// their streams are gone: so many must end before another call is taken.
const maxOrphans = 1 << 10

// maxEcho bounds what an answer repeats of its request, in bytes.
const maxEcho = 200

// resetLocked ends a stream that the client has broken.
func (c *conn) resetLocked(st *stream, code errorCode) error {
	c.out = appendReset(c.out, st.id, code)
	c.kickLocked()
	c.endLocked(st)
	c.s.running.Go(func() { st.abort(context.Canceled) }) // takes the lock of the context, and calls others
	return c.spendLocked(costReset)
}

// resetUnknown resets a stream that has not become a call.
func (c *conn) resetUnknown(id uint32, code errorCode) error {
	if err := c.spend(costReset); err != nil {
		return err
	}
	return c.control(func(b []byte) []byte { return appendReset(b, id, code) })
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
	if m.held > 0 {
		st.c.s.o.Ledger.Give(ledger.In, m.held)
		m.held = 0
	} else {
		st.c.smallLocked(-int64(m.size) - messageCost)
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
	if c.handlers--; c.handlers == 0 && c.closed {
		c.changed.Broadcast()
	}
	switch {
	case st.status != 0:
		c.sendPlainLocked(st)
	case reply != nil && s.Code() == codes.OK:
		c.sendLocked(st, st.head(), reply, s)
	case !c.roomLocked():
		w := wait{within: c.s.o.Patience}
		c.awaitRoomLocked(st, &w)
		w.stop()
	}
	c.s.o.Ledger.Give(ledger.In, st.kept)
	st.kept = 0
	if st.returned = true; st.orphan {
		c.orphans--
	}
	c.finishLocked(st, s)
	c.flushLocked()
	c.passOnLocked()
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
		var held int64
		data, held, err = st.decompress(data)
		if st.method.unary != nil {
			st.c.mu.Lock()
			st.kept += held
			st.c.mu.Unlock()
		} else {
			defer st.c.s.o.Ledger.Give(ledger.In, held)
		}
		if err != nil {
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
	if st.method.unary == nil || m.held == 0 { // who admits requests counts them from now on
		st.releaseLocked(&m)
	}
	st.kept += m.held
	st.giveBackLocked(int64(m.size) + prefixSize)
	return m, nil
}

// giveBackPaddingLocked lets the client send again what was no part of a
// message.
func (st *stream) giveBackPaddingLocked(n int) {
	if st.clientDone || st.deaf {
		return
	}
	st.window += int64(n)
	st.c.out = appendWindowUpdate(st.c.out, st.id, int64(n))
	st.c.kickLocked()
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
