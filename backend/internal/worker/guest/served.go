package guest

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// Served is an instance that takes the requests of a batch one by one and answers
// them when it likes, also after Execute has returned. It has a thread of its own.
type Served struct {
	Tables wire.Tables
	// Decoupled models give any number of responses; Window is the credit of each
	// of their requests, 0 for none.
	Decoupled bool
	Window    int
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
	jobs   *jobQueue
	done   chan struct{}
}

// Attach makes the instance known: its batches come from now on. The handler calls
// it where it answers INIT.
func (g *Guest) Attach(number uint32, s Served) {
	l := &line{guest: g, number: number, served: s, jobs: newJobQueue(), done: make(chan struct{})}
	g.mu.Lock()
	g.lines[number] = l
	g.mu.Unlock()
	go l.work()
}

// Detach ends what Attach has begun, and waits for the batches that came before.
func (g *Guest) Detach(number uint32) {
	g.mu.Lock()
	l := g.lines[number]
	delete(g.lines, number)
	g.mu.Unlock()
	if l != nil {
		l.jobs.close()
		<-l.done
	}
}

// toLine hands a batch to the served instance that it is for, if it is for one.
func (g *Guest) toLine(j job) bool {
	g.mu.Lock()
	l := g.lines[j.h.Instance]
	g.mu.Unlock()
	if l == nil {
		return false
	}
	l.jobs.put(j)
	return true
}

// work runs the batches. Libraries keep things by thread, such as the device that
// is current or their pool of helpers: all batches of an instance have the same one.
func (l *line) work() {
	defer close(l.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		j, ok := l.jobs.take()
		if !ok {
			return
		}
		err := l.execute(&j)
		j.in.Release()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			_ = l.guest.control.Close()
			return
		}
	}
}

// execute runs one batch.
func (l *line) execute(j *job) error {
	blocks, err := wire.DecodeExecute(j.body)
	if err != nil {
		return err
	}
	b := &batch{line: l, id: j.h.ID, open: len(blocks)}
	requests := make([]*Request, len(blocks))
	for i := range blocks {
		if requests[i], err = l.request(b, &blocks[i], j.body); err != nil {
			return err
		}
	}
	l.guest.mu.Lock()
	for _, r := range requests {
		l.guest.served[r.handle] = r
	}
	l.guest.mu.Unlock()
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

// request makes one of its block.
func (l *line) request(b *batch, block *wire.RequestBlock, body []byte) (*Request, error) {
	tables := &l.served.Tables
	r := &Request{handle: block.Handle, batch: b, allowed: l.served.Window}
	r.ID, r.BatchSize, r.Timeout, r.Priority = string(block.ID), int(block.BatchSize), block.Timeout, block.Priority
	r.Flags, r.Trace, r.Requested = backend.Flags(block.Flags&3), string(block.Trace), tables.Outputs
	r.Correlation = backend.CorrelationID{Number: block.Correlation, Text: string(block.CorrelationText)}
	var err error
	if r.Parameters, err = wire.ParseParameters(block.Parameters); err != nil {
		return nil, fmt.Errorf("worker protocol: parameters of a request: %w", err)
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
			return nil, err
		}
		r.Inputs = append(r.Inputs, t)
		r.Inline = append(r.Inline, e.Inline())
		if !e.Inline() {
			r.blocks = append(r.blocks, wire.Block{Segment: e.Segment, Offset: e.Offset})
		}
	}
	return r, nil
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
		b.holdLocked(p)
		return nil
	}
	return b.writeLocked([]pending{p}, b.returned && b.open == 0 && !b.line.served.Decoupled)
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
		g.credit.Wait()
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
	g.out = wire.AppendRelease(g.out[:0], blocks)
	_, err := g.descriptors.Write(g.out)
	return err
}
