package guest

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// Served is an instance that takes the requests of a batch one by one and answers
// them when it likes, also after Execute has returned. It has a thread of its own.
type Served struct {
	Tables wire.Tables
	// Decoupled models give any number of responses; Window is the credit of each
	// of their requests, 0 for none.
	Decoupled bool
	Window    int
	// Board is where the instance's words are on the board; nil for one that is sent
	// nothing ahead.
	Board *int
	// InlineLimit is how large a tensor in a frame may be, in bytes.
	InlineLimit int
	// Execute runs a batch. An error answers what is not answered yet.
	Execute func(batch []*Request) error
}

// line is the work of one served instance.
type line struct {
	guest  *Guest
	number uint32
	served Served
	begins *words // nil for an instance that is sent nothing ahead
	done   chan struct{}

	// Guarded by turns.mu.
	wake      waker
	jobs      []job
	room      []job // where jobs begins
	executing bool
	batch     *batch // what it runs, where that has requests
	closed    bool
}

// Attach makes the instance known: its batches come from now on. The handler calls
// it where it answers INIT.
func (g *Guest) Attach(number uint32, s Served) error {
	words, err := g.board.words(s.Board)
	if err != nil {
		return err
	}
	l := &line{guest: g, number: number, served: s, begins: words, done: make(chan struct{}), room: make([]job, 0, 16)}
	l.jobs = l.room
	l.wake.mu = &g.turns.mu
	g.join(l)
	go l.work()
	return nil
}

// Detach ends what Attach has begun, and waits for the batches that came before.
func (g *Guest) Detach(number uint32) {
	if l := g.part(number); l != nil {
		<-l.done
	}
}

// work runs the batches. Libraries keep things by thread, such as the device that
// is current or their pool of helpers: all batches of an instance have the same one.
func (l *line) work() {
	defer close(l.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		j, ok := l.next()
		if !ok {
			return
		}
		var err error
		if l.begins.begin(j.h.ID) {
			err = l.execute(&j)
		} else {
			err = l.guest.frame(wire.KindNotBegun, l.number, j.h.ID)
		}
		j.in.Release()
		if err != nil {
			l.guest.broke(err)
			return
		}
	}
}

// one is a batch of one request, in one piece of memory.
type one struct {
	batch    batch
	request  Request
	requests [1]*Request
	held     [1]pending
	inputs   [2]tensor.Tensor
	inline   [2]bool
	blocks   [2]wire.Block
}

// execute runs one batch.
func (l *line) execute(j *job) error {
	blocks, err := wire.DecodeExecute(j.body)
	if err != nil {
		return err
	}
	var b *batch
	var requests []*Request
	if len(blocks) == 1 {
		o := &one{}
		b, requests, o.requests[0] = &o.batch, o.requests[:], &o.request
		b.held, o.request.Inputs, o.request.Inline, o.request.blocks = o.held[:0], o.inputs[:0], o.inline[:0], o.blocks[:0]
	} else {
		b, requests = &batch{}, make([]*Request, len(blocks))
		for i := range requests {
			requests[i] = &Request{}
		}
	}
	b.line, b.id, b.open = l, j.h.ID, len(blocks)
	for i := range blocks {
		if err = l.request(requests[i], b, &blocks[i], j.body); err != nil {
			return err
		}
	}
	l.guest.mu.Lock()
	for _, r := range requests {
		l.guest.served[r.handle] = r
		if _, early := l.guest.early[r.handle]; early {
			delete(l.guest.early, r.handle)
			r.cancelled.Store(true)
		}
	}
	l.guest.mu.Unlock()
	l.runs(b)
	return b.end(requests, l.run(requests))
}

func (l *line) run(requests []*Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = backend.Errorf(backend.Internal, "backend panicked: %v", v)
		}
	}()
	return l.served.Execute(requests)
}

// request fills one in from its block.
func (l *line) request(r *Request, b *batch, block *wire.RequestBlock, body []byte) error {
	tables := &l.served.Tables
	r.handle, r.batch, r.allowed = block.Handle, b, l.served.Window
	r.ID, r.BatchSize, r.Timeout, r.Priority = string(block.ID), int(block.BatchSize), block.Timeout, block.Priority
	r.Flags, r.Trace, r.Requested = block.RequestFlags(), string(block.Trace), tables.Outputs
	r.Correlation = backend.CorrelationID{Number: block.Correlation, Text: string(block.CorrelationText)}
	var err error
	if r.Parameters, err = wire.ParseParameters(block.Parameters); err != nil {
		return fmt.Errorf("worker protocol: parameters of a request: %w", err)
	}
	if block.OnlyRequested() {
		r.Requested = nil
		for _, k := range block.Requested {
			if k < len(tables.Outputs) {
				r.Requested = append(r.Requested, tables.Outputs[k])
			}
		}
	}
	for k := range block.Inputs {
		e := &block.Inputs[k]
		t, err := l.guest.view(e, tables.Inputs, body)
		if err != nil {
			return err
		}
		r.Inputs = append(r.Inputs, t)
		r.Inline = append(r.Inline, e.Inline())
		if !e.Inline() {
			r.blocks = append(r.blocks, wire.Block{Segment: e.Segment, Offset: e.Offset})
		}
	}
	return nil
}

// Request is one request of a served instance.
type Request struct {
	backend.Request
	// Inline says of each input that its memory is that of the frame, which is
	// gone when Execute has returned.
	Inline []bool

	handle    uint64
	batch     *batch
	blocks    []wire.Block // of the inputs in shared memory
	cancelled atomic.Bool

	// Guarded by the batch's mu.
	ended, released, retained bool
	sent, allowed             int // of the window
}

// Cancelled reports whether nobody waits for the answer any more.
func (r *Request) Cancelled() bool { return r.cancelled.Load() }

// SentBy returns the program in the worker's own process that has sent the request, nil
// for others, and the caller's reference of what keeps its inputs, where they are in pieces.
func (r *Request) SentBy() (by backend.Sender, keep *tensor.Buffer) {
	return r.batch.line.guest.near.Sender(r.handle)
}

// ErrAnswered is the error of an answer after the final one.
var ErrAnswered error = backend.Errorf(backend.Internal, "the request has already had its final response")

// Release says that the inputs are not read any more; they are the server's from
// the final response on, or from here on where this comes later.
func (r *Request) Release() error {
	b := r.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	r.released = true
	if !r.retained {
		return nil
	}
	r.retained = false
	return b.line.guest.giveBack(r.blocks)
}

// Again gives the request back, to be run again.
func (r *Request) Again() error { return r.answer(nil, true, true) }

// Answer sends a response, which it takes over; nil with final is the end without
// one. It waits while the client does not take what was sent.
func (r *Request) Answer(a *Answer, final bool) error {
	if a == nil && !final {
		return nil
	}
	return r.answer(a, final, false)
}

func (r *Request) answer(a *Answer, final, again bool) error {
	b := r.batch
	if a != nil && b.line.served.Decoupled {
		if err := r.await(a); err != nil {
			a.Drop()
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.ended {
		a.Drop()
		return ErrAnswered
	}
	if final {
		r.ended = true
		b.open--
	}
	p := pending{request: r, answer: a, final: final && !again, again: again}
	if !b.returned && !b.line.served.Decoupled {
		b.held = append(b.held, p)
		return nil
	}
	return b.writeLocked([]pending{p}, b.returned && b.open == 0 && !b.line.served.Decoupled, false)
}

// await waits for the credit that the response costs.
func (r *Request) await(a *Answer) error {
	if r.batch.line.served.Window == 0 {
		return nil
	}
	g := r.batch.line.guest
	g.mu.Lock()
	defer g.mu.Unlock()
	for r.sent >= r.allowed && !r.cancelled.Load() {
		if g.ended {
			return errServerGone
		}
		g.mu.Unlock() // credit that comes meanwhile is seen below
		g.readOn()
		g.mu.Lock()
		if r.sent >= r.allowed && !r.cancelled.Load() && !g.ended {
			g.credit.Wait()
		}
	}
	r.sent += a.cost()
	return nil
}

// credited takes back what the client has taken.
func (g *Guest) credited(handle uint64, body []byte) error {
	n, err := wire.DecodeCredit(body)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.served[handle]; r != nil {
		r.allowed += n
		g.credit.Broadcast()
	}
	return nil
}

// giveBack tells the server that blocks of inputs are not read any more.
func (g *Guest) giveBack(blocks []wire.Block) error {
	if len(blocks) == 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out = wire.AppendRelease(g.out, blocks)
	return g.sendLocked(nil)
}
