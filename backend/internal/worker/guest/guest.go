package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/near"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// Handler is what a worker written in Go does. Its methods are called one
// at a time, unless it is Concurrent.
type Handler interface {
	// Call answers LOAD, INIT and UNLOAD.
	Call(kind wire.Kind, instance uint32, body json.RawMessage) (any, error)
	// Instance says how the batches of an instance are made and run.
	Instance(number uint32) (Instance, bool)
	// Exit ends what the worker holds: the server has said so.
	Exit()
}

// Instance is an instance as its worker serves it.
type Instance struct {
	Tables wire.Tables
	// Whole runs a gathered batch as one request: the server divides the outputs.
	Whole       bool
	InlineLimit int
	Execute     func(*backend.Batch) error
}

// Guest is the worker's side of a connection, for workers written in Go. Its
// reader never waits for the model; one goroutine does what the server asks for,
// in the order of the frames.
type Guest struct {
	handler              Handler
	jobs                 *jobQueue // of Serve
	control, descriptors *os.File
	in                   source
	asks                 bool // the thread of an only instance does not sleep at once
	rd                   wire.Reader
	memory               guestMemory
	calls                calls
	board                board
	turns                turns
	near                 *near.Near // of a worker in the server's process; else nil

	mu      sync.Mutex // of the writing end and of running
	to      io.Writer
	enc     wire.Encoder
	sending []wire.Outgoing          // room for what is being encoded
	out     []byte                   // what is to be sent: held answers, and what is just being encoded
	held    time.Time                // since when there are held answers
	running map[uint64]*guestRequest // by handle
	served  map[uint64]*Request      // by handle
	early   map[uint64]struct{}      // handles of which a CANCEL has come, but which are not in served
	credit  sync.Cond                // some has come, or the server is gone
	ended   bool
}

// job is a frame that waits for its turn.
type job struct {
	h    wire.Header
	body []byte
	in   *wire.Chunk // where body lies
}

// New speaks over the channels of InheritedChannels.
func New(control, descriptors *os.File, h Handler) *Guest {
	return newGuest(control, descriptors, channel.FileSource{File: control}, descriptors, h)
}

func newGuest(control, descriptors *os.File, from source, to io.Writer, h Handler) *Guest {
	g := &Guest{
		handler: h, control: control, descriptors: descriptors, in: from, to: to,
		rd: wire.NewReader(from, nil, nil), running: map[uint64]*guestRequest{}, served: map[uint64]*Request{},
		early: map[uint64]struct{}{},
	}
	g.credit.L = &g.mu
	g.memory.init(g)
	g.calls.init()
	g.turns.init(g)
	return g
}

// Connect is New over the channels that neso-host has inherited from the server, for
// served instances.
func Connect(h Handler) (*Guest, error) {
	control, descriptors, err := channel.Inherited()
	if err != nil {
		return nil, fmt.Errorf("neso-host is started by the server: %w", err)
	}
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)) + spareProcessors)
	debug.SetGCPercent(collectAt)
	g, err := NewServing(control, descriptors, h)
	if err == nil {
		g.turns.spare = spareProcessors
	}
	return g, err
}

// spareProcessors is how many of Go's processors there are for threads that keep one while
// they wait for a moment: one that reads and three of instances.
const spareProcessors = 4

// collectAt is how much the heap of neso-host grows before it is collected, in percent.
// What Go keeps there is small, 2 MiB or so: at the usual 100 % a busy library's requests
// have it collected a hundred times a second.
const collectAt = 400

// NewServing is New for served instances: the thread of one reads itself.
func NewServing(control, descriptors *os.File, h Handler) (*Guest, error) {
	from, err := channel.NewSource(control)
	if err != nil {
		return nil, err
	}
	to, descriptors, err := channel.NewSink(descriptors)
	if err != nil {
		return nil, err
	}
	g := newGuest(control, descriptors, from, to, h)
	g.board.known, g.asks, g.turns.spare = true, true, 1
	return g, nil
}

// Beside says what the worker shares with the server, whose process it is in. It comes
// before Serve.
func (g *Guest) Beside(n *near.Near) { g.near = n }

// Run is Serve for libraries: it says on standard error what went wrong, and returns the
// exit status of neso-host.
func (g *Guest) Run() int {
	if err := g.Serve(); err != nil {
		g.complain(err)
		return 1
	}
	return 0
}

// Serve greets the server and works until it says EXIT or is gone, which is no
// error.
func (g *Guest) Serve() error {
	hello := wire.Hello{PID: os.Getpid(), Protocol: wire.Version, Lent: true, Board: g.board.known, Asks: g.asks}
	if err := g.json(wire.KindHello, 0, 0, hello); err != nil {
		return unlessGone(err)
	}
	jobs := newJobQueue()
	g.jobs = jobs
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		g.work(jobs)
	}()
	err := g.background()
	jobs.close()
	g.memory.end()
	g.calls.end()
	g.end()
	if errors.Is(err, errGuestExit) {
		<-worked
		for _, number := range g.numbers() {
			g.Detach(number)
		}
		g.handler.Exit()
		return nil
	}
	// The server is gone: nobody waits for what still runs, and a model may run for
	// long. The process ends with its caller.
	return unlessGone(err)
}

var errGuestExit = errors.New("the server said EXIT")

// handle takes a frame. What changes memory or cancels is done at once.
func (g *Guest) handle(h wire.Header, body []byte) (err error) {
	switch h.Kind {
	case wire.KindLoad, wire.KindInit, wire.KindUnload, wire.KindExecute, wire.KindExecuteBatch:
		if j := (job{h, body, g.rd.Chunk()}); h.Kind != wire.KindExecute || !g.put(j) {
			g.jobs.put(j)
		}
	case wire.KindCredit:
		err = g.credited(h.ID, body)
	case wire.KindSegment:
		err = g.segment(body)
	case wire.KindDrop:
		err = g.memory.drop(body)
	case wire.KindRelease:
		err = wire.DecodeRelease(body, g.memory.release)
	case wire.KindReady, wire.KindFailed:
		err = g.answered(h, body)
	case wire.KindInferResponses:
		err = g.inferred(h, body, g.rd.Chunk())
	case wire.KindPinned:
		err = g.pinned(h.ID, body)
	case wire.KindCancel:
		g.cancel(h.ID)
	case wire.KindExit:
		return errGuestExit
	default:
		err = &wire.ProtocolError{Field: "kind", Offset: 3, Detail: h.Kind.String() + " is not for a worker of this kind"}
	}
	return err
}

func (g *Guest) work(jobs *jobQueue) {
	var concurrent *callQueues
	if h, ok := g.handler.(Concurrent); ok {
		concurrent = &callQueues{guest: g, handler: h, queues: map[uint32]*callQueue{}}
		defer concurrent.running.Wait()
	}
	for {
		j, ok := jobs.take()
		if !ok {
			return
		}
		var err error
		switch j.h.Kind {
		case wire.KindExecute, wire.KindExecuteBatch:
			err = g.execute(&j)
		default:
			if concurrent != nil {
				concurrent.put(j)
			} else {
				err = g.call(&j)
			}
		}
		j.in.Release()
		if err != nil {
			g.broke(err)
			return
		}
	}
}

func (g *Guest) call(j *job) error {
	answer, err := g.handler.Call(j.h.Kind, j.h.Instance, append(json.RawMessage(nil), j.body...))
	if err != nil {
		return g.json(wire.KindFailed, j.h.Instance, j.h.ID, guestFailure(err))
	}
	if answer == nil {
		answer = struct{}{}
	}
	return g.json(wire.KindReady, j.h.Instance, j.h.ID, answer)
}

// guestFailure carries the code of an error in front of its text.
func guestFailure(err error) wire.FailedBody {
	e := backend.AsError(err)
	return wire.FailedBody{Message: e.Message, Code: int(e.Code)}
}

func (g *Guest) json(kind wire.Kind, instance uint32, id uint64, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out, err = wire.AppendFrame(g.out, kind, instance, id, body)
	return g.sendLocked(err)
}

// sendLocked sends what is in out; err is why what was to be added could not be encoded.
func (g *Guest) sendLocked(err error) error {
	if len(g.out) > 0 {
		if _, failed := g.to.Write(g.out); err == nil {
			err = failed
		}
	}
	g.held = time.Time{}
	if g.out = g.out[:0]; cap(g.out) > spareLimit {
		g.out = nil
	}
	return err
}

// spareLimit is the largest write buffer worth keeping.
const spareLimit = 1 << 20

// flush sends the answers that are held. Where the channel is broken the reader says so.
func (g *Guest) flush() {
	g.mu.Lock()
	_ = g.sendLocked(nil)
	g.mu.Unlock()
}

// Log sends a record to the server's log. Any goroutine may call it.
func (g *Guest) Log(level uint8, file string, line int, message string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var err error
	g.out, err = wire.AppendLog(g.out, level, file, line, message)
	return g.sendLocked(err)
}

func (g *Guest) cancel(handle uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.running[handle]; r != nil {
		r.cancelled.Store(true)
	}
	if r := g.served[handle]; r != nil {
		r.cancelled.Store(true)
		g.credit.Broadcast()
	} else {
		if len(g.early) >= earlyLimit {
			clear(g.early) // most are of requests that had been answered
		}
		g.early[handle] = struct{}{}
	}
}

// earlyLimit is how many requests are remembered that were cancelled before they were
// begun. Far fewer are sent ahead.
const earlyLimit = 1024

// end lets those return who wait for what the server would send.
func (g *Guest) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	g.credit.Broadcast()
}

func (g *Guest) numbers() []uint32 {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	return slices.Collect(maps.Keys(g.turns.lines))
}

// jobQueue holds frames until their turn. The server bounds how many there are.
type jobQueue struct {
	mu     sync.Mutex
	some   sync.Cond
	list   []job
	closed bool
}

func newJobQueue() *jobQueue {
	q := &jobQueue{}
	q.some.L = &q.mu
	return q
}

func (q *jobQueue) put(j job) {
	j.in.Retain()
	q.mu.Lock()
	q.list = append(q.list, j)
	q.mu.Unlock()
	q.some.Signal()
}

func (q *jobQueue) take() (job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && !q.closed {
		q.some.Wait()
	}
	if len(q.list) == 0 {
		return job{}, false
	}
	j := q.list[0]
	q.list[0] = job{}
	q.list = q.list[1:]
	return j, true
}

// close lets take return what is left, and then nothing.
func (q *jobQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.some.Broadcast()
}

// nameOf returns what an entry is called.
func nameOf(e *wire.Entry, names []string) (string, error) {
	switch {
	case e.Index < 0:
		return string(e.Name), nil
	case e.Index >= len(names):
		return "", fmt.Errorf("worker protocol: tensor %d of %d", e.Index, len(names))
	}
	return names[e.Index], nil
}

// Mapped returns the memory behind the number of a segment that the server has
// handed over, nil where there is none.
func (g *Guest) Mapped(number uint32) []byte {
	g.memory.mu.Lock()
	defer g.memory.mu.Unlock()
	return g.memory.inputs[number]
}

// view makes a tensor of an entry: in the frame, or in a segment.
func (g *Guest) view(e *wire.Entry, names []string, body []byte) (tensor.Tensor, error) {
	name, err := nameOf(e, names)
	if err != nil {
		return tensor.Tensor{}, err
	}
	t := tensor.Tensor{Name: name, Datatype: e.Datatype, Shape: e.Shape}
	if e.Inline() {
		t.Data = body[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
		return t, nil
	}
	t.Data, err = g.memory.input(e)
	return t, err
}
