package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// Handler is what a worker written in Go does. Its methods are called one
// at a time.
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
	control, descriptors *os.File
	rd                   wire.Reader
	memory               guestMemory

	mu      sync.Mutex // of the writing end and of running
	enc     wire.Encoder
	out     []byte
	running map[uint64]*guestRequest // by handle
	lines   map[uint32]*line
	served  map[uint64]*Request // by handle
	credit  sync.Cond           // some has come, or the server is gone
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
	g := &Guest{
		handler: h, control: control, descriptors: descriptors,
		rd: wire.NewReader(control, nil, nil), running: map[uint64]*guestRequest{},
		lines: map[uint32]*line{}, served: map[uint64]*Request{},
	}
	g.credit.L = &g.mu
	g.memory.init(g)
	return g
}

// Serve greets the server and works until it says EXIT or is gone, which is no
// error.
func (g *Guest) Serve() error {
	if err := g.json(wire.KindHello, 0, 0, wire.Hello{PID: os.Getpid(), Protocol: wire.Version, Lent: true}); err != nil {
		return err
	}
	jobs := newJobQueue()
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		g.work(jobs)
	}()
	err := g.read(jobs)
	jobs.close()
	g.memory.end()
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
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

var errGuestExit = errors.New("the server said EXIT")

// read takes frames in. What changes memory or cancels is done at once.
func (g *Guest) read(jobs *jobQueue) error {
	for {
		h, body, err := g.rd.Next()
		if err != nil {
			return err
		}
		switch h.Kind {
		case wire.KindLoad, wire.KindInit, wire.KindUnload, wire.KindExecute, wire.KindExecuteBatch:
			if j := (job{h, body, g.rd.Chunk()}); h.Kind != wire.KindExecute || !g.toLine(j) {
				jobs.put(j)
			}
		case wire.KindCredit:
			err = g.credited(h.ID, body)
		case wire.KindSegment:
			err = g.memory.segment(body, g.descriptors)
		case wire.KindDrop:
			err = g.memory.drop(body)
		case wire.KindRelease:
			err = wire.DecodeRelease(body, g.memory.release)
		case wire.KindFailed:
			g.memory.failed(string(body))
		case wire.KindCancel:
			g.cancel(h.ID)
		case wire.KindExit:
			return errGuestExit
		default:
			err = &wire.ProtocolError{Field: "kind", Offset: 3, Detail: h.Kind.String() + " is not for a worker of this kind"}
		}
		if err != nil {
			return err
		}
	}
}

func (g *Guest) work(jobs *jobQueue) {
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
			err = g.call(&j)
		}
		j.in.Release()
		if err != nil { // the channel is broken, which the reader sees too, or the server breaks the protocol
			fmt.Fprintln(os.Stderr, err)
			_ = g.control.Close()
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
	if g.out, err = wire.AppendFrame(g.out[:0], kind, instance, id, body); err != nil {
		return err
	}
	_, err = g.descriptors.Write(g.out)
	return err
}

// Log sends a record to the server's log. Any goroutine may call it.
func (g *Guest) Log(level uint8, file string, line int, message string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var err error
	if g.out, err = wire.AppendLog(g.out[:0], level, file, line, message); err == nil {
		_, err = g.descriptors.Write(g.out)
	}
	return err
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
	}
}

// end lets those return who wait for what the server would send.
func (g *Guest) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	g.credit.Broadcast()
}

func (g *Guest) numbers() []uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.lines))
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
