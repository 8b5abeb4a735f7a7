package worker

import (
	"errors"
	"os"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/reader"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// reading belongs to whoever reads a connection: one goroutine at a time, to which the
// election has given the part. Each group of frames has a type, which sees only what it
// may touch. The groups belong to the reader too: others ask for batchFrames by tell.
type reading struct {
	conn    *Conn
	rd      wire.Reader
	in      *channel.Reader  // the source of rd
	leading bool             // that is an Execute, not the background goroutine
	fetch   *hostcalls.Infer // a call that it makes for the worker instead of reading
	chains  bool             // the worker's batches make such calls

	batches batchFrames
	memory  memoryFrames
	calls   callFrames
	session sessionFrames
}

// await returns when the batch has ended.
func (c *Conn) await(b *batch) {
	s := c.lock()
	for !b.Ended {
		if s.turns.election.Take() {
			c.unlock()
			c.reading.lead(b)
			c.lock()
			continue
		}
		s.turns.election.Wait(b)
		c.unlock()
		why := <-b.Wake
		if why == reader.WakeLead {
			c.reading.lead(b)
		}
		c.lock()
	}
	c.unlock()
}

// lead reads until the caller's batch has ended, then passes the part on. When the worker
// makes a call and waits for nothing else, lead yields the part, makes the call on its
// own goroutine and returns. If the call takes long, the idle tick finds another reader.
func (r *reading) lead(b *batch) {
	r.leading = true
	for !b.Ended || r.rd.Buffered() {
		if b.Chained || r.chains {
			r.in.Expect()
		}
		err := r.step()
		if fetch := r.fetch; fetch != nil {
			r.fetch, r.leading, r.chains = nil, false, true
			s := r.conn.lock()
			if s.err == nil {
				s.turns.yield()
			} else {
				s.turns.wake <- struct{}{} // others need not wait for the call
			}
			r.conn.unlock()
			fetch.Run()
			return
		}
		if err != nil {
			r.leading = false
			r.conn.end(err)
			r.conn.lock().turns.wake <- struct{}{} // the background goroutine answers what is left
			r.conn.unlock()
			return
		}
	}
	r.leading = false
	s := r.conn.lock()
	s.turns.passOn(s.busy())
	r.conn.unlock()
}

// step reads and handles one frame.
func (r *reading) step() error {
	h, body, err := r.rd.Next()
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if err != nil && !late {
		return err
	}
	r.conn.handled.Add(1)
	defer r.conn.handled.Add(1)
	if late {
		r.runTasks()
		return nil
	}
	return r.handle(h, body, r.rd.Chunk())
}

// past is a deadline that ends a Read at once.
var past = time.Unix(1, 0)

// tell has the reader run f: what only the reader may do to batches can be asked for by
// others. It does nothing once the connection has ended.
func (c *Conn) tell(f func(*batchFrames)) {
	s := c.lock()
	if s.err != nil {
		c.unlock()
		return
	}
	s.tasks = append(s.tasks, f)
	s.turns.background()
	c.unlock()
	// The reader may sit in a Read, on behalf of a batch that never ends.
	_ = c.ch.Descriptors.SetReadDeadline(past)
}

// runTasks does what the reader was told. The deadline is taken back first:
// a task that comes later sets it again.
func (r *reading) runTasks() {
	_ = r.conn.ch.Descriptors.SetReadDeadline(time.Time{})
	s := r.conn.lock()
	list := s.tasks
	s.tasks = nil
	r.conn.unlock()
	for _, f := range list {
		f(&r.batches)
	}
}

// background reads while no Execute does, and answers what is left when the
// channel has ended. It starts with the reader's part.
func (r *reading) background() {
	c := r.conn
	defer close(c.done)
	for {
		err := c.Err()
		if err == nil {
			if r.batches.followed {
				r.batches.followed = false
				r.in.Expect()
			}
			if err = r.step(); err != nil {
				c.end(err)
			}
		}
		if err != nil {
			break
		}
		if r.rd.Buffered() {
			continue
		}
		s := c.lock()
		wait := s.turns.election.Look(!s.busy())
		if wait {
			s.turns.passOn(s.busy())
		}
		wake := s.turns.wake
		c.unlock()
		if wait {
			<-wake
		}
	}
	r.rd.Close()
	c.handled.Add(1) // to the end
	c.failAll()      // the process has ended then, and with it what it had open
	r.memory.returnLent()
	c.closeBoards()
	c.mem.Close()
	r.memory.leaveDevices()
	c.ownRate.End()
}

// handle takes one frame. An error ends the connection. body is a view of in.
func (r *reading) handle(h wire.Header, body []byte, in *wire.Chunk) error {
	switch h.Kind {
	case wire.KindResponses:
		return r.batches.responses(h, body, in)
	case wire.KindResultBatch:
		return r.batches.result(h, body, in)
	case wire.KindDone:
		return r.batches.done(h, body)
	case wire.KindReady, wire.KindFailed:
		r.session.replied(h, body)
	case wire.KindHello:
		return r.session.greeted(h, body)
	case wire.KindGrow:
		return r.memory.grow(h, body)
	case wire.KindDropped:
		return r.memory.dropped(body)
	case wire.KindDevices:
		return r.memory.sees(body)
	case wire.KindNotBegun:
		return r.batches.notBegun(h)
	case wire.KindFree:
		r.batches.freed(h)
	case wire.KindTimes:
		return r.batches.times(h, body)
	case wire.KindActivity:
		return r.calls.activity(body)
	case wire.KindRelease:
		return r.memory.released(body)
	case wire.KindLog:
		return r.session.log(body)
	case wire.KindInfer:
		return r.infer(h, body, in)
	case wire.KindCancel:
		r.calls.host.Cancel(h.ID)
	case wire.KindCredit:
		return r.calls.host.Credit(h.ID, body)
	case wire.KindMetric:
		r.calls.called()
		return r.calls.host.Metric(h, body)
	case wire.KindControl:
		return r.calls.control(h, body)
	case wire.KindBind, wire.KindUnbind:
		return r.calls.other(h, body)
	default:
		return &wire.ProtocolError{Field: "kind", Offset: 3, Detail: h.Kind.String() + " is not for the server"}
	}
	return nil
}

// infer begins the call of another model.
func (r *reading) infer(h wire.Header, body []byte, in *wire.Chunk) error {
	call, alone, err := r.calls.infer(h, body, in)
	switch {
	case call == nil:
		return err
	case alone && r.leading && !r.rd.Buffered():
		// Nothing more comes before the answer, so that whoever reads may as well go
		// and fetch it: that saves two switches between goroutines. See lead.
		r.fetch = call
	default:
		// The server may queue, load or refuse: not the reader's time.
		r.conn.wg.Go(call.Run)
	}
	return nil
}
