package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
	"github.com/nesoserve/neso/backend/internal/worker/near"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// ConnOptions says what a connection needs to know and to call.
type ConnOptions struct {
	// Logger takes the worker's log records. It carries model and instance, unless the
	// worker is the process of a user (Serve).
	Logger *slog.Logger
	// Rate bounds the log records; nil gives the connection a rate of its own.
	Rate *linelog.Rate
	// Host serves calls out of the worker; nil refuses them.
	Host backend.Host
	// OutputLimit bounds the worker's output memory in bytes; 0 is
	// segment.DefaultMemoryLimit.
	OutputLimit uint64
	// Grace is how long an interrupted batch may still run before the connection
	// is ended; 0 is a second. It must be shorter than the server waits for the
	// executions that it has interrupted.
	Grace time.Duration
	// Serve answers calls that only the processes of users may make: BIND, UNBIND,
	// and operations of CONTROL that the connection does not know. nil refuses
	// them.
	Serve func(ctx context.Context, kind wire.Kind, body json.RawMessage) (any, error)
	// KeepStuck keeps the connection, with all its other models, when a batch does not
	// come back: only that batch is abandoned.
	KeepStuck bool
	// Arena is where large answers to INFER go when the caller is no instance.
	Arena *segment.Arena
	// Devices makes the memory on GPUs that the worker may ask for; nil: none.
	Devices *segment.DevicePool
	// Cause returns the error that requests in flight are answered with when the
	// connection has ended with err. It may wait a short while for the exit status.
	Cause func(error) *backend.Error

	// Near is what a worker in this process shares with the server; nil for all others.
	Near *near.Near

	Load LoadOptions     // for Load
	Gone <-chan struct{} // closed when the process has ended; nil where that cannot be seen

	frameWait, frameGrace time.Duration // see NewPatience; 0 but in tests
}

// Conn is the server's side of one worker's control channel. One goroutine
// reads; it delivers responses and never waits for the worker to read.
// Whoever has a frame to send encodes it into the outbox, and flushes that.
type Conn struct {
	opts    ConnOptions
	ch      channel.Ends
	mem     *segment.Outputs
	host    hostcalls.Calls
	ownRate *linelog.Rate   // of a connection that was given none
	ctx     context.Context // ends with the connection; for calls out of the worker
	stop    context.CancelFunc

	wg      sync.WaitGroup
	closing chan struct{} // closed when the connection ends
	done    chan struct{} // closed when everything in flight has been answered
	helloed chan struct{} // closed by HELLO
	hello   wire.Hello
	reading reading       // for whoever reads
	handled atomic.Uint64 // see Held
	usage   usage

	mu    sync.Mutex
	state state // of who has called lock
}

// state is what the lock of a connection guards.
type state struct {
	err    error // why the connection ended
	lastID uint64
	calls  calls
	tasks  []func(*batchFrames) // for the reader

	out    outbox
	shared sharedMemory
	turns  turns
	work   work
}

// calls are those of the server that await READY or FAILED, by their number.
type calls map[uint64]chan reply

type reply struct {
	kind wire.Kind
	body []byte
}

// lock returns what the lock guards, which is the caller's until unlock.
func (c *Conn) lock() *state {
	c.mu.Lock()
	return &c.state
}

func (c *Conn) unlock() { c.mu.Unlock() }

// busy reports whether something of the worker is awaited.
func (s *state) busy() bool { return s.work.batches.Busy() || len(s.calls) > 0 }

var (
	// ErrEnded ends the connection on our side, and refuses what is sent after the end.
	ErrEnded = errors.New("the worker's connection has ended")
	// ErrStuck ends a connection, or only the batch where the connection is kept.
	ErrStuck = errors.New("the worker did not come back from a cancelled batch")
)

// NewConn starts to speak with a worker. It takes over the channels.
func NewConn(ch channel.Ends, opts ConnOptions) (*Conn, error) {
	var raw syscall.RawConn
	var in *channel.Reader
	control, err := channel.Unpolled(ch.Control)
	if err == nil {
		ch.Control = control
		raw, err = ch.Control.SyscallConn()
	}
	if err == nil {
		in, err = channel.NewReader(ch.Descriptors)
	}
	if err != nil {
		ch.Peer.Close()
		return nil, errors.Join(err, ch.Control.Close(), ch.Descriptors.Close())
	}
	c := &Conn{
		opts: opts, ch: ch,
		closing: make(chan struct{}), done: make(chan struct{}), helloed: make(chan struct{}),
	}
	if c.opts.Rate == nil {
		c.opts.Rate = linelog.NewRate(c.logger())
		c.ownRate = c.opts.Rate
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mem = segment.NewOutputs(opts.OutputLimit, c.release)
	c.state.init(c, raw)
	c.reading.init(c, in)
	c.host.Init(hostcalls.Worker{
		Host: opts.Host, Go: c.wg.Go, Reply: c.reply, Send: c.sendAnswer, Lend: c.lend,
		ToHost: func(t *tensor.Tensor) *backend.Error { return c.reading.batches.views.toHost(t, nil) }, Fail: c.end,
	})
	c.wg.Go(func() { c.state.out.flusher(c.ch.Control, c.closing) })
	c.wg.Go(c.reading.background)
	if opts.Near != nil {
		opts.Near.Serve(c.senderOf)
	}
	if opts.Gone != nil {
		c.wg.Go(c.watchProcess)
	}
	return c, nil
}

// init makes the state ready to use. The background goroutine reads first.
func (s *state) init(c *Conn, raw syscall.RawConn) {
	s.calls = calls{}
	s.out.init(&c.mu, raw)
	s.shared.out, s.shared.ends, s.shared.pool = &s.out, &c.ch, c.opts.Devices
	s.shared.arenas = map[*segment.Arena][]uint32{}
	s.shared.lent.Init(func() { c.reading.memory.dropLent() })
	s.shared.releases = time.AfterFunc(time.Hour, c.flushReleases)
	s.turns.wake = make(chan struct{}, 1)
	s.turns.idle = time.AfterFunc(time.Hour, c.idleTick)
	s.turns.election.Take()
	s.work.out, s.work.shared, s.work.turns = &s.out, &s.shared, &s.turns
	s.work.instances, s.work.batches = instances{}, inflight.New[*Instance]()
	s.work.contextEnded, s.work.cancels = c.contextEnded, time.AfterFunc(time.Hour, c.sendCancels)
}

// init gives the reader, and what takes the frames, what they may touch.
func (r *reading) init(c *Conn, in *channel.Reader) {
	shared, work := guard[sharedMemory]{&c.mu, &c.state.shared}, guard[work]{&c.mu, &c.state.work}
	r.conn, r.in = c, in
	r.rd = wire.NewReader(in, wire.FromWorkers, wire.NewPatience(c.opts.frameWait, c.opts.frameGrace, c.end))
	views := &views{work: work, outputs: c.mem, near: c.opts.Near, host: c.opts.Host}
	r.batches = batchFrames{
		work: work, views: views, keepStuck: c.opts.KeepStuck, many: c.opts.Serve != nil,
		logger: c.logger, run: c.wg.Go, closing: c.closing,
	}
	r.memory = memoryFrames{
		shared: shared, outputs: c.mem, loans: &c.state.shared.lent, pool: c.opts.Devices, run: c.host.Run, reply: c.reply,
	}
	r.calls = callFrames{
		work: work, turns: guard[turns]{&c.mu, &c.state.turns},
		views: views, host: &c.host, ctx: c.ctx, arena: c.opts.Arena, serve: c.opts.Serve,
		usage: &c.usage, reply: c.reply,
	}
	if c.opts.Devices != nil {
		r.calls.sees = c.seesDevice
	}
	r.session = sessionFrames{
		shared: shared, calls: guard[calls]{&c.mu, &c.state.calls}, hello: &c.hello, helloed: c.helloed,
		logger: c.logger, rate: c.opts.Rate, ctx: c.ctx,
	}
}

// The events of timers, and of others who do not have the lock.

func (c *Conn) flushReleases() {
	c.lock().shared.flushReleases()
	c.unlock()
}

func (c *Conn) release(k wire.Block) {
	c.lock().shared.release(k)
	c.unlock()
}

func (c *Conn) sendCancels() {
	c.lock().work.sendCancels()
	c.unlock()
}

func (c *Conn) idleTick() {
	c.lock().turns.tick()
	c.unlock()
}

// watchProcess ends the worker's channel when the process has ended: what it has started
// may hold the channel open, and does not speak for the worker.
func (c *Conn) watchProcess() {
	select {
	case <-c.opts.Gone:
	case <-c.closing:
		return
	}
	if raw, err := c.ch.Descriptors.SyscallConn(); err == nil {
		channel.HearNoMore(raw)
	}
}

// Hello waits for HELLO, the first frame of the worker.
func (c *Conn) Hello(ctx context.Context) (wire.Hello, error) {
	select {
	case <-c.helloed:
		return c.hello, nil
	case <-c.done:
		return wire.Hello{}, c.Err()
	case <-ctx.Done():
		return wire.Hello{}, ctx.Err()
	}
}

// Done is closed when the connection has ended and everything in flight has
// been answered.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended; nil while it lives.
func (c *Conn) Err() error {
	defer c.unlock()
	return c.lock().err
}

// Close ends the connection, answers what is in flight and waits for the
// connection's goroutines.
func (c *Conn) Close() {
	c.end(ErrEnded)
	c.wg.Wait()
	c.opts.Near.End()
}

// senderOf returns who has sent a request that the worker has, and keeps its inputs: they
// are still there, since the request has not been answered, which takes the lock.
func (c *Conn) senderOf(handle uint64) (by backend.Sender, keep *tensor.Buffer) {
	r := c.lock().work.batches.Request(handle)
	defer c.unlock()
	if r == nil || r.Request.Sender == nil {
		return nil, nil
	}
	by = r.Request.Sender
	if keep = by.InPieces(); keep != nil {
		keep.Retain()
	}
	return by, keep
}

// end makes the reader and the flusher stop. The first error counts.
func (c *Conn) end(err error) {
	s := c.lock()
	if s.err != nil {
		c.unlock()
		return
	}
	s.err = err
	s.shared.releases.Stop()
	s.work.cancels.Stop()
	s.turns.idle.Stop()
	s.turns.election.Close()
	s.work.stopLimits()
	s.work.recallAll()
	s.work.unwatchAll()
	s.out.end()
	s.turns.background()
	c.unlock()
	close(c.closing)
	c.stop()
	// Closing wakes a blocked Read of the same file; a blocked Write ends with the
	// socket.
	channel.Shutdown(c.state.out.raw)
	_ = c.ch.Control.Close()
	_ = c.ch.Descriptors.Close()
	c.ch.Peer.Close()
}

// Call sends a JSON frame and waits for READY or FAILED. FAILED becomes a
// *CallError.
func (c *Conn) Call(ctx context.Context, kind wire.Kind, instance uint32, body any) (json.RawMessage, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	answer := make(chan reply, 1)
	s := c.lock()
	if s.err != nil {
		c.unlock()
		select {
		case <-c.done:
			return nil, c.cause()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.lastID++
	id := s.lastID
	if err := s.out.append(kind, instance, id, text); err != nil {
		c.unlock()
		return nil, err
	}
	s.calls[id] = answer
	s.turns.background()
	s.out.flush()
	c.unlock()
	forget := func() {
		delete(c.lock().calls, id)
		c.unlock()
	}
	select {
	case r := <-answer:
		if r.kind == wire.KindReady {
			return r.body, nil
		}
		var f wire.FailedBody
		if err := json.Unmarshal(r.body, &f); err != nil {
			return nil, err
		}
		return nil, callError(&f)
	case <-c.done:
		select {
		case r := <-answer: // it came just before the end
			if r.kind == wire.KindReady {
				return r.body, nil
			}
			var f wire.FailedBody
			if json.Unmarshal(r.body, &f) == nil {
				return nil, callError(&f)
			}
		default:
		}
		return nil, c.cause()
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}

// heldLimit is after how long what reads is seen to be held up.
const heldLimit = 50 * time.Millisecond

// Held has held called once whoever reads has been with one frame for some while: it calls
// a program then that does not return, for which the answer to a Call waits, and which
// perhaps waits for that answer itself. stop ends the watch.
func (c *Conn) Held(held func()) (stop func()) {
	ended := make(chan struct{})
	go func() { // until stop
		t := time.NewTicker(heldLimit)
		defer t.Stop()
		for last := uint64(0); ; {
			select {
			case <-ended:
				return
			case <-t.C:
			}
			now := c.handled.Load()
			if now == last && now%2 == 1 {
				held()
				return
			}
			last = now
		}
	}()
	return sync.OnceFunc(func() { close(ended) })
}

// CallError is what a worker answered with FAILED.
type CallError struct {
	Message, Traceback string
	// Code is Internal unless the worker said another one.
	Code backend.Code
}

func callError(f *wire.FailedBody) *CallError {
	e := &CallError{Message: f.Message, Traceback: f.Traceback, Code: backend.Internal}
	if f.Code > 0 && f.Code <= int(backend.Cancelled) {
		e.Code = backend.Code(f.Code)
	}
	return e
}

func (e *CallError) Error() string { return e.Message }

// Exit tells the worker to finalize and to end.
func (c *Conn) Exit() {
	s := c.lock()
	defer c.unlock()
	if s.err == nil {
		_ = s.out.append(wire.KindExit, 0, 0, nil)
		s.out.flush()
	}
}

// cause is the error for everything that the end of the connection interrupted.
func (c *Conn) cause() *backend.Error {
	err := c.Err()
	if c.opts.Cause != nil {
		return c.opts.Cause(err)
	}
	return backend.AsError(err)
}

// failAll answers everything in flight with the cause of the end.
func (c *Conn) failAll() {
	cause := c.cause()
	f := &c.reading.batches
	f.takeBackAll()
	s := c.lock()
	s.calls = calls{} // their callers see done
	held := s.shared.ledger.End()
	s.tasks = nil
	s.out.clear()
	c.unlock()
	f.fail(cause)
	releaseBuffers(held)
	c.host.Close()
}

func (c *Conn) logger() *slog.Logger {
	if c.opts.Logger != nil {
		return c.opts.Logger
	}
	return slog.New(slog.DiscardHandler)
}
