package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/backend/internal/worker/ledger"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// ConnOptions says what a connection needs to know and to call.
type ConnOptions struct {
	// Logger takes the worker's log records; it carries model and instance, unless the worker is a user's process (Serve).
	Logger *slog.Logger
	// Rate bounds these; nil means one of the connection's own.
	Rate *linelog.Rate
	// Host serves calls out of the worker; nil refuses them.
	Host backend.Host
	// OutputLimit bounds the worker's output memory in bytes; 0 is
	// DefaultMemoryLimit.
	OutputLimit uint64
	// Grace is how long an interrupted batch may still run before the connection
	// is ended; 0 is a second. It must be shorter than the server waits for the
	// executions that it has interrupted.
	Grace time.Duration
	// Serve answers calls that only the processes of users may make: BIND, UNBIND,
	// and operations of CONTROL that the connection does not know. nil refuses
	// them.
	Serve func(ctx context.Context, kind wire.Kind, body json.RawMessage) (any, error)
	// KeepStuck gives up a batch that does not come back, and not the connection
	// with all its other models.
	KeepStuck bool
	// Arena is where large answers to INFER go when the caller is no instance.
	Arena *segment.Arena
	// Devices makes the memory on GPUs that the worker may ask for; nil: none.
	Devices *segment.DevicePool
	// Cause turns the end of the connection into the error that requests in
	// flight are answered with. It may wait, for the exit status, but not long.
	Cause func(error) *backend.Error

	Load LoadOptions     // for Load
	Gone <-chan struct{} // closed when the process has ended; nil where that cannot be seen

	frameWait, frameGrace time.Duration // see NewPatience; 0 but in tests
}

// Conn is the server's side of one worker's control channel. One goroutine
// reads; it delivers responses and never waits for the worker to read.
// Whoever has a frame to send encodes it into out under mu, and writes what is
// there unless somebody is already writing: then that one takes it along.
type Conn struct {
	opts ConnOptions
	ch   channel.Ends
	raw  syscall.RawConn // of ch.Control, which never waits in the poller
	mem  *segment.Outputs
	ctx  context.Context // ends with the connection; for calls out of the worker
	stop context.CancelFunc

	wg      sync.WaitGroup
	closing chan struct{} // closed when the connection ends
	r       readerState
	part    reading       // for whoever reads
	done    chan struct{} // closed when everything in flight has been answered
	helloed chan struct{} // closed by HELLO
	hello   wire.Hello
	kick    chan struct{} // tells the flusher that it has something to write

	mu        sync.Mutex
	out       []byte // frames waiting to be written
	spare     []byte
	writing   bool   // somebody is writing
	left      []byte // what the flusher has to write first
	writeErr  error
	room      sync.Cond // out became shorter
	err       error     // why the connection ended
	batches   inflight.Batches[*Instance]
	calls     map[uint64]chan reply
	lastID    uint64
	instances map[uint32]*Instance
	devices   []tensor.GPU  // that the worker sees; nil before DEVICES
	inputs    []wireSegment // by wire number
	arenas    map[*segment.Arena][]uint32
	lent      segment.Loans
	borrows   bool // the worker knows segments of others, and DROP
	ledger    ledger.Ledger
	enc       wire.Encoder
	timers    connTimers
	watches   []watch
	host      hostcalls.Calls
	boards    boards
	ownRate   *linelog.Rate    // of a connection that was given none
	tasks     []func(*reading) // for the reader
	place     placement        // while a batch is encoded

	tryBuf []byte // of the one that is writing
	tryN   int
	tryErr error
	try    func(uintptr) bool
}

type wireSegment struct {
	arena *segment.Arena
	index int
}

// connTimers are armed while there is something to do and never otherwise.
type connTimers struct {
	releases, cancels           *time.Timer
	releasesArmed, cancelsArmed bool
}

const (
	// releaseDelay is how long a block's release waits for a frame to ride on.
	releaseDelay = time.Millisecond
	// releaseBatch is how many releases do not wait any longer.
	releaseBatch = 64
	// cancelTick is how often requests in flight are looked at for cancellation:
	// cheaper than a context callback a request.
	cancelTick = 10 * time.Millisecond
	// spareLimit is the largest write buffer worth keeping.
	spareLimit = 1 << 20
	// callRoom is how many bytes may wait for a worker that does not read while it
	// gets responses to its own calls.
	callRoom = 4 << 20
)

type reply struct {
	kind wire.Kind
	body []byte
}

// interruptGrace is short: when a batch is interrupted, its requests have had
// their time.
const interruptGrace = time.Second

var (
	// ErrEnded ends what the worker has not begun when its connection ends.
	ErrEnded = errors.New("the worker's connection has ended")
	// ErrStuck ends a connection, or a batch alone where the connection is kept.
	ErrStuck = errors.New("the worker did not come back from a cancelled batch")
)

// NewConn starts to speak with a worker. It takes over the channels.
func NewConn(ch channel.Ends, opts ConnOptions) (*Conn, error) {
	var raw syscall.RawConn
	var in *channel.Reader
	control, err := channel.WriteOnly(ch.Control)
	if err == nil {
		ch.Control = control
		raw, err = ch.Control.SyscallConn()
	}
	if err == nil {
		in, err = channel.NewReader(ch.Descriptors)
	}
	if err != nil {
		return nil, errors.Join(err, ch.Control.Close(), ch.Descriptors.Close())
	}
	c := &Conn{
		opts: opts, ch: ch, raw: raw,
		closing: make(chan struct{}), done: make(chan struct{}), helloed: make(chan struct{}), kick: make(chan struct{}, 1),
		batches: inflight.New[*Instance](), calls: map[uint64]chan reply{}, instances: map[uint32]*Instance{},
		arenas: map[*segment.Arena][]uint32{},
	}
	if c.opts.Rate == nil {
		c.opts.Rate = linelog.NewRate(c.logger())
		c.ownRate = c.opts.Rate
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.room.L = &c.mu
	c.mem = segment.NewOutputs(opts.OutputLimit, c.release)
	c.lent.Init(c.dropLent)
	c.host.Init(hostcalls.Worker{
		Host: opts.Host, Go: c.wg.Go, Reply: c.reply, Send: c.sendAnswer, Lend: c.lend,
		ToHost: func(t *tensor.Tensor) *backend.Error { return c.toHost(t, nil) }, Fail: c.end,
	})
	c.try = func(fd uintptr) bool {
		c.tryN, c.tryErr = channel.TryWrite(fd, c.tryBuf)
		return true
	}
	c.timers.releases = time.AfterFunc(time.Hour, c.flushReleases)
	c.timers.cancels = time.AfterFunc(time.Hour, c.sendCancels)
	c.wg.Go(c.flusher)
	c.part = reading{Conn: c, in: in, rd: wire.NewReader(in, wire.FromWorkers, wire.NewPatience(opts.frameWait, opts.frameGrace, c.end))}
	c.r.wake = make(chan struct{}, 1)
	c.r.election.Take() // for background
	c.r.idle = time.AfterFunc(time.Hour, c.idleTick)
	c.wg.Go(c.part.background)
	if opts.Gone != nil {
		c.wg.Go(c.mourn)
	}
	return c, nil
}

// mourn ends what can still come when the process has ended: something that it has
// started may hold its channels open, and says nothing in its name.
func (c *Conn) mourn() {
	select {
	case <-c.opts.Gone:
	case <-c.closing:
		return
	}
	if raw, err := c.ch.Descriptors.SyscallConn(); err == nil {
		channel.HearNoMore(raw)
	}
}

// Hello waits for the worker's first word.
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
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection, answers what is in flight and waits for the
// connection's goroutines.
func (c *Conn) Close() {
	c.end(ErrEnded)
	c.wg.Wait()
}

// end makes the reader and the flusher stop. The first error counts.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.timers.releases.Stop()
	c.timers.cancels.Stop()
	c.r.idle.Stop()
	c.r.election.Close()
	c.stopLimitsLocked()
	c.recallAllLocked()
	for _, w := range c.watches {
		w.stop()
	}
	c.watches = nil
	c.room.Broadcast()
	c.backgroundLocked()
	c.mu.Unlock()
	close(c.closing)
	c.stop()
	// Closing wakes a blocked Read of the same file; a blocked Write ends with the
	// socket.
	channel.Shutdown(c.raw)
	_ = c.ch.Control.Close()
	_ = c.ch.Descriptors.Close()
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
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		<-c.done
		return nil, c.cause()
	}
	c.lastID++
	id := c.lastID
	var err error
	if c.out, err = wire.AppendFrame(c.out, kind, instance, id, text); err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.calls[id] = answer
	c.backgroundLocked()
	c.flushLocked()
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.out, _ = wire.AppendFrame(c.out, wire.KindExit, 0, 0, nil)
		c.flushLocked()
	}
}

// cause is the error for what the end of the connection cut off.
func (c *Conn) cause() *backend.Error {
	err := c.Err()
	if c.opts.Cause != nil {
		return c.opts.Cause(err)
	}
	return backend.AsError(err)
}
