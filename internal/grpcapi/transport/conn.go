package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/grpcapi/transport/flow"
	"github.com/nesoserve/neso/internal/grpcapi/transport/header"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/listen"
	"github.com/nesoserve/neso/internal/rawsocket"
)

// conn is one client's connection.
//
// What reads it has an intake. Handlers write to it: whoever has something to write
// appends it to out and calls flush, and the first to do so writes what there
// is until nothing is left, while the others go on. That needs no goroutine of
// its own, wakes nobody for a small answer, and gathers answers while a write is
// under way.
type conn struct {
	s    *Server
	nc   net.Conn
	peer peer.Peer

	in   *intake         // see takeOver: it is the reader's alone
	sock *rawsocket.Conn // nil where calls never run on the reader

	inline atomic.Uint64 // turn of the handler that runs on the reader, or 0
	seen   uint64        // inline in the last round of Server.watch, whose it is

	lastRead atomic.Int64 // nanoseconds, for keepalive
	quiet    atomic.Bool  // nothing was sent since the last ping of the client
	choked   atomic.Bool  // the reader has to wait for room in out
	within   atomic.Int64 // nanoseconds for a write that has to wait
	armed    bool         // the socket knows; of whoever writes to it
	share    ledger.Share // of transfers that the ledger may cut off

	mu        sync.Mutex
	changed   sync.Cond // on mu: the end of a write, of the last handler; room in out for the reader
	turns     line      // senders that wait for their turn to write, or for room in send
	rooms     line      // senders that wait for room in out
	streams   map[uint32]*stream
	handlers  int // running, those of streams that are reset included
	orphans   int // of handlers, those whose streams are gone
	out       []byte
	outHeld   int64  // of out, what is counted
	spare     []byte // another buffer for out
	writing   bool
	kicked    bool          // a goroutine that writes is about to begin
	wakes     int           // of senders that waited, for tests
	debt      time.Duration // see spendLocked
	ahead     int64         // memory of messages that is made before they come
	smallHeld int64         // what small messages hold that wait for their handlers
	smallIn   int64         // of smallHeld, what is counted
	// send is what the client takes on the connection, streamSend what it takes on a
	// new stream.
	send, streamSend flow.Window
	maxFrame         int
	table            header.Table
	draining         bool
	last             uint32 // streams above it are refused once draining is settled
	settled          bool   // the second GOAWAY is out
	closed           bool
	timers           [timerCount]*time.Timer
	greeted          bool // the handshakes are over
	hurry            bool // what is written now must leave within farewellTime
}

// maxOut bounds what waits to be written, in bytes: whoever would add to it
// waits, the reader with what is answered without a handler. A client that asks
// without reading is stopped by that.
const maxOut = 1 << 20

// errHello is for what is no HTTP/2, or has failed to be TLS.
var errHello = errors.New("transport: not a connection of gRPC")

// serve is the life of the connection.
func (c *intake) serve() {
	if err := c.hello(); err != nil {
		c.end(err)
		return
	}
	c.keep()
	c.serveOn()
}

// serveOn reads the connection, until it ends or another goroutine does.
func (c *intake) serveOn() {
	if err := c.read(); err != errHandedOver { //nolint:errorlint // it comes as it is
		c.end(err)
	}
}

// end closes the connection after err, and waits for its handlers.
func (c *intake) end(err error) {
	if fault, ok := errors.AsType[*connError](err); ok {
		c.farewell(fault)
	} else if errors.Is(err, errHello) {
		listen.Linger(c.nc)
	}
	c.close()
	c.mu.Lock()
	for c.handlers > 0 || c.writing { // their requests are cancelled
		c.changed.Wait()
	}
	c.mu.Unlock()
	c.rd.free()
	c.s.forget(c.conn)
}

// hello makes the handshakes.
func (c *intake) hello() error {
	_ = c.nc.SetDeadline(time.Now().Add(c.s.o.Hello))
	if c.s.o.TLS != nil {
		t := tls.Server(c.nc, c.s.o.TLS)
		ctx, cancel := context.WithTimeout(context.Background(), c.s.o.Hello)
		err := t.HandshakeContext(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: %w", errHello, err) // the client is to read the alert
		}
		state := t.ConnectionState()
		if p := state.NegotiatedProtocol; p != "" && p != "h2" {
			return errHello
		}
		c.mu.Lock()
		c.nc = t
		c.mu.Unlock()
		level := credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}
		c.peer.AuthInfo = credentials.TLSInfo{State: state, CommonAuthInfo: level}
	}
	c.rd.init(c.nc)
	// A request of HTTP/1 may be shorter than the preface.
	first, err := c.rd.peek(methodSize)
	if err != nil {
		return err
	}
	if string(first) != preface[:methodSize] {
		c.answerHTTP1(string(first))
		return errHello
	}
	var got [len(preface)]byte
	if err := c.rd.full(got[:]); err != nil {
		return err
	}
	if string(got[:]) != preface {
		return errHello
	}
	_ = c.nc.SetWriteDeadline(time.Time{}) // that of reads is for the client's settings, too
	var b []byte
	b = appendFrameHead(b, 4*6, frameSettings, 0, 0)
	b = appendSetting(b, settingMaxStreams, uint32(c.s.o.MaxStreams))
	b = appendSetting(b, settingInitialWindow, uint32(c.s.o.StreamWindow))
	b = appendSetting(b, settingMaxFrame, maxFrame)
	b = appendSetting(b, settingMaxHeaderList, MaxHeaderList)
	if more := int64(c.s.o.ConnWindow) - flow.Default; more > 0 {
		b = appendWindowUpdate(b, 0, more)
	}
	c.lastRead.Store(backend.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greeted = true
	c.out = append(c.out, b...)
	c.flushLocked()
	return nil
}

// methodSize is how many bytes tell the methods of HTTP/1 from each other, and from
// the preface.
const methodSize = 4

// answerHTTP1 tells a client that begins as HTTP/1 does where it is; others would
// take the answer for frames. hello has set the deadline.
func (c *conn) answerHTTP1(first string) {
	switch first {
	case "GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "TRAC", "CONN":
	default:
		return
	}
	if text := c.s.o.Plain; text != "" {
		const head = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
		// The connection ends, whether the client has taken it or not.
		_, _ = fmt.Fprintf(c.nc, "%s%d\r\n\r\n%s", head, len(text), text)
	}
}

// farewell tells a client what it has done wrong. Closing over what it may still
// be sending would destroy that before it has been read.
func (c *intake) farewell(fault *connError) {
	c.mu.Lock()
	c.hurry = true
	_ = c.nc.SetDeadline(time.Now().Add(farewellTime))
	c.out = appendGoAway(c.out, c.lastID, fault.code, fault.text)
	c.flushLocked()
	for c.writing && !c.closed {
		c.changed.Wait()
	}
	c.mu.Unlock()
	listen.Linger(c.nc)
}

// closeWrite ends what the client reads. It reports whether that was possible: not
// every connection has two halves.
func (c *conn) closeWrite() bool {
	half, ok := c.nc.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// farewellTime bounds farewell.
const farewellTime = time.Second

// close ends the connection: its calls are cancelled, nothing is written any
// more. Later calls have no effect.
func (c *conn) close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	for t := range c.timers {
		c.stopLocked(timer(t))
	}
	streams := make([]*stream, 0, len(c.streams))
	for _, st := range c.streams {
		streams = append(streams, st)
	}
	clear(c.streams)
	nc := c.nc
	c.emptiedLocked()
	c.changed.Broadcast()
	c.mu.Unlock()
	_ = nc.Close()
	for _, st := range streams {
		st.abort(context.Canceled)
	}
}

// connError is a fault of the client's that ends the connection.
type connError struct {
	code errorCode
	text string
}

func (e *connError) Error() string { return "transport: " + e.text }

func fault(code errorCode, text string) error { return &connError{code, text} }

// drain lets no new calls begin. The connection ends with its last call.
func (c *conn) drain(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.draining || c.closed:
		return
	case !c.greeted:
		c.s.running.Go(c.close) // nobody has asked it for anything
		return
	}
	c.draining = true
	// The client may have sent calls that are still on their way. A ping comes back
	// behind them: until then they are taken.
	c.out = appendGoAway(c.out, flow.Max, codeNone, text)
	c.out = appendPing(c.out, 0, drainPing)
	c.kickLocked()
	c.afterLocked(timerDrain, drainWait, c.settle)
}

var drainPing = [8]byte{'n', 'e', 's', 'o', 'd', 'r', 'a', 'i'}

// drainWait is how long drain waits for the ping.
const drainWait = time.Second

// settle refuses calls from now on.
func (c *conn) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled || c.closed {
		return
	}
	c.settled = true
	c.out = appendGoAway(c.out, c.last, codeNone, "")
	c.kickLocked()
	c.endIfDrainedLocked()
}

// endIfDrainedLocked ends the reader when the last call is over.
func (c *conn) endIfDrainedLocked() {
	if c.settled && len(c.streams) == 0 && !c.closed {
		c.s.running.Go(c.finish)
	}
}

// finish closes the connection once everything is written. The client gets a
// while to read it and to close its side: closing over what it may still be
// sending would destroy what it has not read.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushLocked()
	for c.writing && !c.closed {
		c.changed.Wait()
	}
	if !c.closeWrite() {
		c.s.running.Go(c.close)
		return
	}
	c.afterLocked(timerDrain, drainWait, c.close)
}

// timer is a purpose that a connection has one timer for.
type timer int

const (
	timerKeepalive timer = iota
	timerAge
	timerDrain
	timerSlow
	timerCount
)

// afterLocked calls f after d, unless the connection has ended by then.
func (c *conn) afterLocked(t timer, d time.Duration, f func()) {
	if !c.closed {
		c.stopLocked(t)
		c.timers[t] = c.s.after(d, f)
	}
}

func (c *conn) stopLocked(t timer) {
	c.s.stopTimer(c.timers[t])
	c.timers[t] = nil
}

// forgetLocked ends a stream. Its handler may still run.
func (c *conn) forgetLocked(st *stream) {
	if c.streams[st.id] == st {
		delete(c.streams, st.id)
		c.endIfDrainedLocked()
	}
}
