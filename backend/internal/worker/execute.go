package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/backend/internal/worker/reader"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// Instance is one instance of a model as a connection serves it.
type Instance struct {
	Number    uint32
	Name      string         // as in "m_0_0", for error texts
	Caller    backend.Caller // of the requests that it sends, without what changes
	Tables    wire.Tables
	Decoupled bool
	// Window says that the worker counts the responses that it sends, see stream.Window.
	Window bool
	// Gather sends EXECUTE_BATCH in place of EXECUTE.
	Gather bool
	// Arena is the input memory of the version.
	Arena *segment.Arena
	// InlineLimit is what the worker was told in LOAD.
	InlineLimit int
	// Writable tells the worker which input blocks it may write to: those that
	// nothing else refers to. Such an instance is not lent memory of others, unless
	// Lent is set: then the worker maps what it is lent so that nobody sees its writes.
	Writable, Lent bool
	// TakesDevice says that inputs may lie on the GPUs that the worker sees; the
	// others are brought to the host.
	TakesDevice bool
	// Timeout, when above zero, is how long a batch may take before its requests are
	// answered with an error. The instance stays occupied until the batch is back.
	Timeout time.Duration
	// Limit, when above zero, is how long a batch may take before the process is ended.
	Limit time.Duration

	// Responded, when not nil, takes what the model says itself of responses.
	Responded func(backend.ResponseReport)

	// Board, when not nil, lets batches be sent ahead.
	Board *board.Slot

	conn     *Conn
	clock    *limitClock
	pipeline *inflight.Pipeline[*Instance] // what the worker has of it

	// Life is the number of the life of its worker, from 1. It is for package supervise.
	Life uint64
}

// Conn returns the connection of the instance.
func (i *Instance) Conn() *Conn { return i.conn }

// Attach makes the instance known to the connection; INIT must have succeeded,
// or follow before the first Execute.
func (c *Conn) Attach(inst Instance) *Instance {
	inst.conn, inst.clock, inst.pipeline = c, &limitClock{}, inflight.NewPipeline[*Instance](inst.Board != nil)
	c.lock().work.instances[inst.Number] = &inst
	c.unlock()
	return &inst
}

// Detach forgets an instance that has been unloaded.
func (c *Conn) Detach(i *Instance) {
	w := &c.lock().work
	defer c.unlock()
	if w.instances[i.Number] == i {
		delete(w.instances, i.Number)
		w.boards.free(i.Board)
	}
}

// Stuck reports whether a batch that was abandoned, or has not come back before its
// timeout, is still not back.
func (i *Instance) Stuck() bool {
	i.conn.lock()
	defer i.conn.unlock()
	return i.pipeline.Stuck()
}

// Overdue returns how many batches have not come back before their timeout.
func (i *Instance) Overdue() int { return i.pipeline.Overdue() }

// batch is a batch that the worker has, see package inflight.
type batch = inflight.Batch[*Instance]

var batches = sync.Pool{New: func() any { return &batch{Wake: make(chan reader.Wake, 1)} }}

func recycle(b *batch) {
	b.Reset()
	batches.Put(b)
}

// placement finds where the inputs of one batch lie. It is part of work.
type placement struct {
	inst   *Instance
	shared *sharedMemory
	// copies that Put has not been asked for yet, in its order. Inputs in the same memory
	// have a copy each, because a copy ends with its request.
	copies []inflight.Copy
	err    error
}

// Put says where an input lies for the worker.
func (p *placement) Put(of []tensor.Tensor, i int) wire.Place {
	t := &of[i]
	if len(t.Data) <= p.inst.InlineLimit && !t.OnDevice() {
		return wire.Place{Segment: wire.InlineSegment}
	}
	at, ok := p.inst.Arena.Locate(t)
	own := false
	if !ok {
		if at, ok := p.shared.lentTo(p.inst, t); ok {
			return wire.Place{Segment: at.Segment, Offset: at.Offset}
		}
		if k := slices.IndexFunc(p.copies, func(c inflight.Copy) bool { return c.Of(t) }); k >= 0 {
			r := p.copies[k].Buffer.Region()
			at = wire.Place{Segment: r.Segment, Offset: r.Offset}
			own = p.copies[k].Buffer.References() == 1
			p.copies = p.copies[k+1:]
		}
	} else {
		own = t.Buffer.References() == sharing(of, i)
	}
	number, err := p.shared.number(p.inst.Arena, at.Segment)
	if err != nil {
		p.err = err
	}
	return wire.Place{Segment: number, Offset: at.Offset, Own: own && p.inst.Writable}
}

// sharing returns how many of a request's inputs lie in the buffer of input i, as the
// inputs of one body do: each of them has a reference to it. It returns 0 when another
// input begins at the same byte.
func sharing(of []tensor.Tensor, i int) int {
	n := 0
	for k := range of {
		if of[k].Buffer != of[i].Buffer {
			continue
		}
		if k != i && (len(of[i].Data) == 0 || len(of[k].Data) > 0 && &of[k].Data[0] == &of[i].Data[0]) {
			return 0
		}
		n++
	}
	return n
}

// share copies large inputs into the version's shared memory. It leaves those that lie
// there already, and those in memory of another model that the worker can be lent. A
// worker that writes to its inputs is lent nothing: it gets copies of its own.
func (i *Instance) share(request int, inputs []tensor.Tensor, copies []inflight.Copy) ([]inflight.Copy, error) {
	for k := range inputs {
		t := &inputs[k]
		if t.OnDevice() {
			var err error
			if copies, err = i.shareDevice(request, t, copies); err != nil {
				return copies, err
			}
			continue
		}
		if len(t.Data) <= i.InlineLimit {
			continue
		}
		if _, ok := i.Arena.Locate(t); ok {
			continue
		}
		if !i.Writable || i.Lent {
			if _, ok := i.conn.lend(t); ok {
				continue
			}
		}
		buf, err := i.Arena.AllocateShared(len(t.Data))
		if err != nil {
			return copies, backend.Errorf(backend.Unavailable, "failed to place input '%s' in shared memory: %v", t.Name, err)
		}
		copy(buf.Bytes(), t.Data)
		copies = append(copies, inflight.Copy{Request: request, Data: &t.Data[0], Buffer: buf})
	}
	return copies, nil
}

func releaseCopies(copies []inflight.Copy) {
	for i := range copies {
		copies[i].Buffer.Release()
	}
}

// Execute sends the batch and waits until the worker can take another one. By then every
// request has been answered, unless the model is decoupled. When Execute returns an
// error, the caller answers with it the requests that have no final response. A batch with
// Ended is sent only, unless it is gathered or has a Timeout. ctx is the
// server's: its end cancels the requests. A worker that does not come back within the
// grace period is given up then; until then it still reads the inputs.
func (i *Instance) Execute(ctx context.Context, from *backend.Batch) error {
	c := i.conn
	b, _ := batches.Get().(*batch)
	b.Batch, b.Instance = from, i
	b.Started = from.Ended != nil && !i.Gather && i.Timeout <= 0
	started := b.Started // once it has been sent, b may be another batch
	b.Chained = len(from.Requests) > 0 && from.Requests[0].Caller.Waits
	var err error
	if i.Gather {
		b.Copies, err = i.share(0, from.Inputs, b.Copies)
	} else {
		for k, r := range from.Requests {
			if b.Copies, err = i.share(k, r.Inputs, b.Copies); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = c.send(ctx, b)
	}
	if err != nil {
		releaseCopies(b.Copies)
		recycle(b)
		return err
	}
	if started {
		return backend.ErrStarted
	}
	if i.Timeout > 0 {
		id := b.ID
		t := time.AfterFunc(i.Timeout, func() { c.tell(func(f *batchFrames) { f.expire(id) }) })
		c.await(b)
		t.Stop()
	} else {
		c.await(b)
	}
	if b.Outputs != nil {
		if b.Err != nil || b.Expired() {
			hostcalls.ReleaseTensors(b.Outputs)
		} else {
			b.Err = from.Scatter(b.Outputs)
		}
		b.Outputs = nil
	}
	err = b.Err
	recycle(b)
	return err
}

// loneInstances is the most instances that a worker has of which one runs batches:
// another one may stand for the process.
const loneInstances = 2

// send registers the batch and writes its frame.
func (c *Conn) send(ctx context.Context, b *batch) error {
	s := c.lock()
	defer c.unlock()
	if s.err != nil {
		return ErrEnded
	}
	w, i := &s.work, b.Instance
	w.batches.Enter(b)
	s.lastID++
	id := s.lastID
	if err := w.encode(b, id); err != nil {
		w.batches.Refuse(b)
		return err
	}
	if w.batches.Sent(b, id, i.pipeline, i.Gather) {
		w.boards.lookSoon()
	}
	w.limitBegun(i, id)
	w.watch(ctx, b)
	w.cancelSoon()
	b.Batch.InputEnd = backend.Now()
	if b.Started {
		// Nobody is about to read the answer, and the caller has other things to do.
		s.turns.background()
		s.out.flushNow()
	} else {
		s.out.flushBatch(i.pipeline.Len(), len(w.instances) <= loneInstances)
	}
	return nil
}

// over calls Ended of a batch that was started and has ended. The caller holds no lock.
func over(b *batch) {
	ended, err := b.Batch.Ended, b.Err
	recycle(b)
	ended(err)
}

func noAnswer(inst *Instance, open int) error {
	return backend.Errorf(backend.Internal,
		"Failed to process the request(s) for model '%s', message: the model ended the batch without a response to %d of its requests",
		inst.Name, open)
}

func releaseBuffers(bufs []*tensor.Buffer) {
	for _, b := range bufs {
		b.Release()
	}
}
