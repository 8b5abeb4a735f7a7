package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
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
	// Window says that the worker keeps count of what it sends; see Window.
	Window bool
	// Gather sends EXECUTE_BATCH in place of EXECUTE.
	Gather bool
	// Arena is the input memory of the version.
	Arena *segment.Arena
	// InlineLimit is what the worker was told in LOAD.
	InlineLimit int
	// Writable tells the worker which input blocks it may write to: those that
	// nothing else refers to. Such an instance is not lent memory of others,
	// unless Lent says that what it writes there it sees alone.
	Writable, Lent bool
	// TakesDevice says that inputs may lie on the GPUs that the worker sees; the
	// others are brought to the host.
	TakesDevice bool
	// Timeout, when above zero, is when a batch that is not back is answered with
	// an error. The instance stays occupied until it is.
	Timeout time.Duration
	// Limit, when above zero, is how long the worker may take for one batch; then
	// the process is ended.
	Limit time.Duration

	// Board, when not nil, lets batches be sent ahead.
	Board *board.Slot

	conn  *Conn
	clock *limitClock
	line  []*batchCall // with a board: what the worker has, in its order
	seen  uint64       // the last that the worker had begun when the line was looked at
	// seenFirst was the first of the line then, recalled is what the board says.
	seenFirst, recalled uint64
	overdue             *atomic.Int32

	// Life says which life of its worker the instance belongs to, for whoever starts
	// workers anew.
	Life uint64
}

// Conn returns the connection of the instance.
func (i *Instance) Conn() *Conn { return i.conn }

// Attach makes the instance known to the connection; INIT must have succeeded,
// or follow before the first Execute.
func (c *Conn) Attach(inst Instance) *Instance {
	inst.conn, inst.overdue, inst.clock = c, &atomic.Int32{}, &limitClock{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[inst.Number] = &inst
	return &inst
}

// batchCall is a batch that the worker has.
type batchCall struct {
	batch   *backend.Batch
	inst    *Instance
	id      uint64
	handles []uint64
	copies  []copied // of a gathered batch; those of requests are in requestState
	place   placement
	outputs []tensor.Tensor // of RESULT_BATCH, for Scatter
	err     error
	chained bool          // a model waits for its answer with all its thread: part of a chain of calls
	ended   bool          // set by the reader under mu
	wake    chan wakeKind // for its Execute, while that waits
	expired bool          // answered by the timeout
	waits   bool          // sent ahead, and not begun as far as is known
	ctxDone <-chan struct{}
}

// copied is an input that had to be brought into shared memory.
type copied struct {
	request int            // index in the batch
	data    *byte          // first byte of the input, which with the size identifies it
	device  *tensor.Buffer // of an input on a GPU, likewise
	buf     *tensor.Buffer
}

// of reports whether it is a copy of what t holds. An input that begins where t does
// need not end there.
func (c *copied) of(t *tensor.Tensor) bool {
	if c.buf.Len() != t.Size() {
		return false
	}
	if len(t.Data) == 0 {
		return c.device == t.Buffer
	}
	return c.data == &t.Data[0]
}

var batchCalls = sync.Pool{New: func() any { return &batchCall{wake: make(chan wakeKind, 1)} }}

func (b *batchCall) recycle() {
	clear(b.copies)
	*b = batchCall{handles: b.handles[:0], copies: b.copies[:0], wake: b.wake}
	batchCalls.Put(b)
}

// placement finds where the inputs of one batch lie.
type placement struct {
	inst *Instance
	conn *Conn
	// copies that have not been placed yet, in the order in which put is asked. Inputs
	// in the same memory have one each: that of another request ends with it.
	copies []copied
	err    error
}

// Put says where an input lies for the worker. Callers hold conn.mu.
func (p *placement) Put(of []tensor.Tensor, i int) wire.Place {
	t := &of[i]
	if len(t.Data) <= p.inst.InlineLimit && !t.OnDevice() {
		return wire.Place{Segment: wire.InlineSegment}
	}
	at, ok := p.inst.Arena.Locate(t)
	own := false
	if !ok {
		if at, ok := p.conn.lentLocked(p.inst, t); ok {
			return wire.Place{Segment: at.Segment, Offset: at.Offset}
		}
		if k := slices.IndexFunc(p.copies, func(c copied) bool { return c.of(t) }); k >= 0 {
			r := p.copies[k].buf.Region()
			at = wire.Place{Segment: r.Segment, Offset: r.Offset}
			own = p.copies[k].buf.References() == 1
			p.copies = p.copies[k+1:]
		}
	} else {
		own = t.Buffer.References() == sharing(of, i)
	}
	number, err := p.conn.wireLocked(p.inst.Arena, at.Segment)
	if err != nil {
		p.err = err
	}
	return wire.Place{Segment: number, Offset: at.Offset, Own: own && p.inst.Writable}
}

// sharing returns how many of a request's inputs lie beside each other in one's
// buffer, as those of one body do: each has a reference. It is 0 when another
// input is the same memory.
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

// share copies the large inputs into the version's shared memory that lie
// neither there nor in memory of another model, which the worker is lent. One
// that writes to its inputs as they lie is lent nothing: a copy is its own.
func (i *Instance) share(request int, inputs []tensor.Tensor, copies []copied) ([]copied, error) {
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
		copies = append(copies, copied{request: request, data: &t.Data[0], buf: buf})
	}
	return copies, nil
}

func releaseCopies(copies []copied) {
	for i := range copies {
		copies[i].buf.Release()
	}
}

// Execute sends the batch and waits until the worker can take another, with
// every request of a model that is not decoupled answered by then. When it
// returns an error, requests without a final response are still to be answered
// with it. ctx is the server's: its end cancels the requests, and after the grace
// period gives up the worker, which until then still reads the inputs.
func (i *Instance) Execute(ctx context.Context, batch *backend.Batch) error {
	c := i.conn
	call, _ := batchCalls.Get().(*batchCall)
	call.batch, call.inst = batch, i
	call.chained = len(batch.Requests) > 0 && batch.Requests[0].Caller.Waits
	var err error
	if i.Gather {
		call.copies, err = i.share(0, batch.Inputs, call.copies)
	} else {
		for k, r := range batch.Requests {
			if call.copies, err = i.share(k, r.Inputs, call.copies); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = c.send(ctx, call)
	}
	if err != nil {
		releaseCopies(call.copies)
		call.recycle()
		return err
	}
	if i.Timeout > 0 {
		id := call.id
		t := time.AfterFunc(i.Timeout, func() { c.tell(func(r *reading) { r.expire(id) }) })
		c.await(call)
		t.Stop()
	} else {
		c.await(call)
	}
	if call.outputs != nil {
		if call.err != nil || call.expired {
			hostcalls.ReleaseTensors(call.outputs)
		} else {
			call.err = batch.Scatter(call.outputs)
		}
		call.outputs = nil
	}
	err = call.err
	call.recycle()
	return err
}

// send registers the batch and writes its frame.
func (c *Conn) send(ctx context.Context, call *batchCall) error {
	i := call.inst
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return ErrEnded
	}
	for _, r := range call.batch.Requests {
		call.handles = append(call.handles, c.requests.add(r, i))
	}
	c.lastID++
	id := c.lastID
	c.releasesLocked()
	call.place = placement{inst: i, conn: c, copies: call.copies}
	begin := len(c.out)
	var err error
	if err = c.segmentsLocked(call); err == nil {
		begin = len(c.out)
		if i.Gather {
			c.out, err = c.enc.AppendExecuteBatch(c.out, i.Number, id, call.batch, call.handles, &i.Tables, &call.place)
		} else {
			c.out, err = c.enc.AppendExecute(c.out, i.Number, id, call.batch.Requests, call.handles, &i.Tables, &call.place)
		}
	}
	if err == nil {
		err = call.place.err
	}
	if err != nil {
		c.out = c.out[:begin]
		for _, h := range call.handles {
			c.requests.remove(h)
		}
		return err
	}
	c.batches[id] = call
	call.id = id
	c.joinLocked(call)
	c.limitBegunLocked(i, id)
	c.watchLocked(ctx, call)
	if !i.Gather {
		for k := range call.copies { // they live as long as their request
			s := c.requests.find(call.handles[call.copies[k].request])
			s.copies = append(s.copies, call.copies[k].buf)
		}
		clear(call.copies)
		call.copies = call.copies[:0]
	}
	if !c.timers.cancelsArmed {
		c.timers.cancelsArmed = true
		c.timers.cancels.Reset(cancelTick)
	}
	call.batch.InputEnd = backend.Now()
	c.flushLocked()
	return nil
}

// segmentsLocked hands over the segments that the batch refers to, before its
// frame is begun: a SEGMENT frame must not end up inside it.
func (c *Conn) segmentsLocked(call *batchCall) error {
	i := call.inst
	if i.Arena == nil || i.Arena.Segments() <= len(c.arenas[i.Arena]) {
		return nil
	}
	_, err := c.wireLocked(i.Arena, uint32(i.Arena.Segments()-1))
	return err
}

func (c *Conn) cancelLocked(handle uint64) {
	if s := c.requests.find(handle); s != nil && !s.cancelled {
		s.cancelled = true
		c.out, _ = wire.AppendFrame(c.out, wire.KindCancel, s.inst.Number, handle, nil)
	}
}

// sendCancels tells the worker about requests that nobody waits for any more.
func (c *Conn) sendCancels() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers.cancelsArmed = false
	if c.err != nil || c.requests.live == 0 {
		return
	}
	for i := range c.requests.slots {
		if s := &c.requests.slots[i]; s.req != nil && !s.cancelled && s.req.Responder != nil && s.req.Cancelled() {
			c.cancelLocked(uint64(s.generation)<<32 | uint64(i))
		}
	}
	c.flushLocked()
	c.timers.cancelsArmed = true
	c.timers.cancels.Reset(cancelTick)
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

func (c *Conn) logger() *slog.Logger {
	if c.opts.Logger != nil {
		return c.opts.Logger
	}
	return slog.New(slog.DiscardHandler)
}
