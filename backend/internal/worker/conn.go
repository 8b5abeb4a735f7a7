package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Channels are the server's ends of what connects it with a worker.
//
// A Unix socket wakes whoever waits on it also when the other side takes what
// was written, so a pair that carries requests one way and answers the other
// costs both sides a needless wake-up for every frame. So the server's frames
// go over one pair and the worker's over the other.
type Channels struct {
	Control     *os.File // the server's frames
	Descriptors *os.File // descriptors to the worker, the worker's frames back
}

// ConnOptions says what a connection needs to know and to call.
type ConnOptions struct {
	// Logger takes the worker's log records; it carries model and instance, unless the worker is a user's process (Serve).
	Logger *slog.Logger
	// rate bounds these; nil means one of the connection's own.
	rate *logRate
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
	Serve func(ctx context.Context, kind Kind, body json.RawMessage) (any, error)
	// KeepStuck gives up a batch that does not come back, and not the connection
	// with all its other models.
	KeepStuck bool
	// Arena is where large answers to INFER go when the caller is no instance.
	Arena *Arena
	// Devices makes the memory on GPUs that the worker may ask for; nil: none.
	Devices *DevicePool
	// Cause turns the end of the connection into the error that requests in
	// flight are answered with. It may wait, for the exit status, but not long.
	Cause func(error) *backend.Error

	load loadOptions // for Load

	frameWait, frameGrace time.Duration // the constants, but in tests
}

// Conn is the server's side of one worker's control channel. One goroutine
// reads; it delivers responses and never waits for the worker to read.
// Whoever has a frame to send encodes it into out under mu, and writes what is
// there unless somebody is already writing: then that one takes it along.
type Conn struct {
	opts ConnOptions
	ch   Channels
	raw  syscall.RawConn // of ch.Control, which never waits in the poller
	mem  *outputs
	ctx  context.Context // ends with the connection; for calls out of the worker
	stop context.CancelFunc

	wg      sync.WaitGroup
	closing chan struct{} // closed when the connection ends
	r       readerState
	done    chan struct{} // closed when everything in flight has been answered
	helloed chan struct{} // closed by HELLO
	hello   Hello
	kick    chan struct{} // tells the flusher that it has something to write

	mu        sync.Mutex
	out       []byte // frames waiting to be written
	spare     []byte
	writing   bool   // somebody is writing
	left      []byte // what the flusher has to write first
	writeErr  error
	room      sync.Cond // out became shorter
	err       error     // why the connection ended
	requests  requestTable
	batches   map[uint64]*batchCall
	calls     map[uint64]chan reply
	lastID    uint64
	instances map[uint32]*Instance
	devices   []tensor.GPU  // that the worker sees; nil before DEVICES
	inputs    []wireSegment // by wire number
	arenas    map[*Arena][]uint32
	lent      lentSegments
	releases  []blockKey
	held      map[blockKey][]*tensor.Buffer
	early     map[blockKey]int // RELEASE that came before the response it belongs to
	enc       encoder
	timers    connTimers
	watches   []watch
	host      hostCalls
	boards    boards
	errands   []func()                // for the reader
	expired   map[uint64]requestState // answered by a timeout, by handle, while the worker still has them
	forsaken  map[uint64]forsaken     // batches that were given up

	tryBuf []byte // of the one that is writing
	tryN   int
	tryErr error
	try    func(uintptr) bool
}

type wireSegment struct {
	arena *Arena
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
	// earlyLimit bounds releases of blocks that were not known to be held.
	earlyLimit = 1 << 16
)

type reply struct {
	kind Kind
	body []byte
}

// interruptGrace is short: when a batch is interrupted, its requests have had
// their time.
const interruptGrace = time.Second

var (
	errEnded = errors.New("the worker's connection has ended")
	errStuck = errors.New("the worker did not come back from a cancelled batch")
)

// NewConn starts to speak with a worker. It takes over the channels.
func NewConn(ch Channels, opts ConnOptions) (*Conn, error) {
	var raw syscall.RawConn
	var in io.Reader
	control, err := writeOnly(ch.Control)
	if err == nil {
		ch.Control = control
		raw, err = ch.Control.SyscallConn()
	}
	if err == nil {
		in, err = directReader(ch.Descriptors)
	}
	if err != nil {
		return nil, errors.Join(err, ch.Control.Close(), ch.Descriptors.Close())
	}
	c := &Conn{
		opts: opts, ch: ch, raw: raw,
		closing: make(chan struct{}), done: make(chan struct{}), helloed: make(chan struct{}), kick: make(chan struct{}, 1),
		batches: map[uint64]*batchCall{}, calls: map[uint64]chan reply{}, instances: map[uint32]*Instance{},
		arenas: map[*Arena][]uint32{}, held: map[blockKey][]*tensor.Buffer{}, early: map[blockKey]int{},
		expired: map[uint64]requestState{}, forsaken: map[uint64]forsaken{},
	}
	if c.opts.rate == nil {
		c.opts.rate = &logRate{logger: c.logger()}
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.room.L = &c.mu
	c.mem = newOutputs(opts.OutputLimit, c.release)
	c.lent.init(c.dropLent)
	c.host.init()
	c.try = func(fd uintptr) bool {
		c.tryN, c.tryErr = tryWrite(fd, c.tryBuf)
		return true
	}
	c.timers.releases = time.AfterFunc(time.Hour, c.flushReleases)
	c.timers.cancels = time.AfterFunc(time.Hour, c.sendCancels)
	c.wg.Go(c.flusher)
	c.r = readerState{rd: frameReader{src: in, bounds: fromWorkers, patience: c.newPatience()}, reading: true, wake: make(chan struct{}, 1)}
	c.r.eager, _ = in.(eager)
	c.r.idle = time.AfterFunc(time.Hour, c.idleTick)
	c.wg.Go(c.background)
	return c, nil
}

// Hello waits for the worker's first word.
func (c *Conn) Hello(ctx context.Context) (Hello, error) {
	select {
	case <-c.helloed:
		return c.hello, nil
	case <-c.done:
		return Hello{}, c.Err()
	case <-ctx.Done():
		return Hello{}, ctx.Err()
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
	c.end(errEnded)
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
	shutdown(c.raw)
	_ = c.ch.Control.Close()
	_ = c.ch.Descriptors.Close()
}

// Call sends a JSON frame and waits for READY or FAILED. FAILED becomes a
// *CallError.
func (c *Conn) Call(ctx context.Context, kind Kind, instance uint32, body any) (json.RawMessage, error) {
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
	if c.out, err = AppendFrame(c.out, kind, instance, id, text); err != nil {
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
		if r.kind == KindReady {
			return r.body, nil
		}
		var f FailedBody
		if err := json.Unmarshal(r.body, &f); err != nil {
			return nil, err
		}
		return nil, f.err()
	case <-c.done:
		select {
		case r := <-answer: // it came just before the end
			if r.kind == KindReady {
				return r.body, nil
			}
			var f FailedBody
			if json.Unmarshal(r.body, &f) == nil {
				return nil, f.err()
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

func (f *FailedBody) err() *CallError {
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
		c.out, _ = AppendFrame(c.out, KindExit, 0, 0, nil)
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
