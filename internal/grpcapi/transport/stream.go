package transport

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/grpcapi/transport/flow"
	"github.com/nesoserve/neso/internal/grpcapi/transport/header"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/logging"
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
	took     time.Duration
	company  bool // the client has sent more meanwhile

	// What a unary call needs one of, so that it is not made each time.
	small   mem.SliceBuffer // the buffer of a small message
	whole   [1]mem.Buffer   // the list of its one buffer
	payload payload         // the answer

	// Guarded by conn.mu.
	inbox      inbox
	send       flow.Window  // what the client takes
	window     flow.Inbound // what the client may send
	ahead      int64        // of conn.ahead
	kept       int64        // on the ledger until the handler returns
	keptSmall  int64        // on its reserve, likewise
	start, due time.Time    // since when a message is coming, and when it has to be there; zero for none, see slow.go
	came       int64        // of that message
	begun      bool         // the handler runs, or has
	returned   bool         // the handler has
	orphan     bool         // counted in conn.orphans
	clientDone bool         // nothing more comes
	deaf       bool         // what comes is not wanted
	filling    bool         // the reader is in what in holds
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
	reply           *payload    // of a unary call, sent with the status
	held            ledger.Room // see Held; used by the handler's goroutine only
	afterSend       func()      // nil for none; used by the handler's goroutine only
	timer           *time.Timer
	md              metadata.MD
	mdOnce          sync.Once
}

// open begins a call whose headers have come.
func (c *intake) open(f frameHead) error {
	h := &c.head
	st := &stream{
		c: c.conn, id: f.stream, encoding: h.Encoding, window: flow.InboundOf(int64(c.s.o.StreamWindow)), left: h.Length,
		clientDone: f.flags&flagEndStream != 0,
	}
	if st.clientDone && h.Length > 0 {
		return c.resetUnknown(f.stream, codeProtocol)
	}
	st.ctx.st = st
	st.fields = c.fields
	// Before others see the stream, or its deadline: they wake who waits there.
	if m := c.s.methods[h.Path]; m != nil && m.streams {
		st.arrive = make(chan struct{}, 1)
	}
	c.mu.Lock()
	tooMany := c.handlers >= c.s.o.MaxStreams || len(c.streams) >= c.s.o.MaxStreams || c.orphans >= maxOrphans
	if tooMany || c.closed || c.settled && f.stream > c.last {
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

// trailers are headers behind the messages: the end of what the client sends.
func (c *intake) trailers(f frameHead) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.streams[f.stream]
	switch {
	case st == nil:
		return c.history.late(f.stream)
	case st.clientDone:
		return c.resetLocked(st, codeStreamClosed)
	case f.flags&flagEndStream == 0, !c.head.Trails(), st.left > 0:
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
			st.c.answer(st, Ended(context.DeadlineExceeded))
		})
	}
}

// refuse answers a call that cannot go on, before or beside its handler.
func (c *conn) refuse(st *stream, s *status.Status) {
	c.answer(st, s) // first: a handler that sees its end would answer, too
	st.ctx.cancel(context.Canceled)
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
		start := len(c.out)
		c.out = append(c.out, make([]byte, frameHeaderSize)...)
		if !st.headSent {
			c.out = c.table.AppendHead(c.out, 200, header.ContentType)
			c.out = header.AppendMetadata(c.out, st.header)
		}
		c.out = c.table.AppendStatus(c.out, s, st.trailer)
		c.out = appendHeaders(c.out, start, st.id, true, c.maxFrame)
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

// run is the life of the handler.
func (st *stream) run() {
	c := st.c
	err := st.call()
	if st.onReader {
		st.look()
	}
	if err == nil && errors.Is(st.ctx.Err(), context.DeadlineExceeded) {
		err = context.DeadlineExceeded // an answer all the same, in the moment before the client gives up
	}
	s, ok := status.FromError(err)
	if !ok {
		s = Ended(err)
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
	case !c.takeRoomLocked():
		w := wait{within: c.s.o.Patience}
		c.awaitRoomLocked(st, &w)
		w.stop()
	}
	c.s.o.Ledger.Give(ledger.In, st.kept)
	c.s.o.Ledger.GiveWhole(ledger.InReserve, c.asker(), st.keptSmall)
	st.kept, st.keptSmall = 0, 0
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
			st.c.s.o.Logger.Error("a handler panicked",
				slog.String("method", st.method.name), slog.Any("panic", p), logging.Block("stack", string(debug.Stack())))
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
	st.mdOnce.Do(func() { st.md = header.Metadata(st.fields) })
	return st.md
}

var _ grpc.ServerStream = (*stream)(nil)
