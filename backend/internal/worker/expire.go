package worker

import (
	"encoding/json"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// past is a deadline that ends a Read at once.
var past = time.Unix(1, 0)

// tell has the reader run f: what only the reader may do can be asked for by
// others. It does nothing once the connection has ended.
func (c *Conn) tell(f func(*reading)) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.tasks = append(c.tasks, f)
	c.backgroundLocked()
	c.mu.Unlock()
	// The reader may sit in a Read, on behalf of a batch that never ends.
	_ = c.ch.Descriptors.SetReadDeadline(past)
}

// runTasks does what the reader was told. The deadline is taken back first:
// a task that comes later sets it again.
func (c *reading) runTasks() {
	_ = c.ch.Descriptors.SetReadDeadline(time.Time{})
	c.mu.Lock()
	list := c.tasks
	c.tasks = nil
	c.mu.Unlock()
	for _, f := range list {
		f(c)
	}
}

// abandoned is a batch that was given up.
type abandoned struct {
	inst *Instance
	kept []*tensor.Buffer // what it may still read
}

// Stuck reports whether a batch of the instance was given up, or has not come
// back in time, and is still not back.
func (i *Instance) Stuck() bool {
	if i.Overdue() > 0 {
		return true
	}
	c := i.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, batch := range c.abandoned {
		if batch.inst == i {
			return true
		}
	}
	return false
}

// Overdue returns how many batches have not come back in time.
func (i *Instance) Overdue() int { return int(i.overdue.Load()) }

// expire answers the requests of a batch that is not back in time. The inputs
// stay where they are: the worker may still read them.
func (c *reading) expire(id uint64) {
	c.mu.Lock()
	call := c.batches[id]
	if call == nil || call.expired {
		c.mu.Unlock()
		return
	}
	call.expired = true
	inst := call.inst
	inst.overdue.Add(1)
	c.mu.Unlock()
	err := backend.Errorf(backend.Unavailable, "inference of model '%s' timed out after %v", inst.Name, inst.Timeout)
	c.logger().Error("inference timed out, its instance is blocked until it returns")
	for _, h := range call.handles {
		c.mu.Lock()
		s := c.requests.find(h)
		if s == nil {
			c.mu.Unlock()
			continue
		}
		state := *s
		state.copies = append([]*tensor.Buffer(nil), s.copies...)
		c.expired[h] = state
		c.requests.remove(h)
		c.mu.Unlock()
		resp := &backend.Response{Err: err}
		switch {
		case state.stream != nil:
			state.stream.Push(stream.Item{Resp: resp, Final: true}, c.closing)
		case state.sent:
			_ = state.req.Respond(nil, true)
		default:
			_ = state.req.Respond(resp, true) // a cancelled request needs nothing more
		}
	}
}

// lateLocked takes a response to a request that has been answered by its
// timeout, and returns what the worker no longer reads.
func (c *Conn) lateLocked(handle uint64, flags uint32) []*tensor.Buffer {
	s, ok := c.expired[handle]
	if !ok || flags&(wire.ResponseFinal|wire.ResponseAgain) == 0 {
		return nil
	}
	delete(c.expired, handle)
	if flags&wire.ResponseRetained != 0 {
		c.holdLocked(&s)
	}
	return s.copies
}

// abandon ends a batch that the worker does not give back. What the worker may
// still read is kept until it does, or until it dies.
func (c *reading) abandon(id uint64) {
	c.mu.Lock()
	call := c.batches[id]
	if call == nil {
		c.mu.Unlock()
		return
	}
	delete(c.batches, id)
	c.limitEndedLocked(call.inst, id)
	c.leaveLocked(call)
	kept := []*tensor.Buffer{}
	keep := func(list []tensor.Tensor) {
		for i := range list {
			if b := list[i].Buffer; b != nil {
				kept = append(kept, b.Retain())
			}
		}
	}
	keep(call.batch.Inputs)
	for k, r := range call.batch.Requests {
		keep(r.Inputs)
		if s := c.requests.find(call.handles[k]); s != nil {
			for _, b := range s.copies {
				kept = append(kept, b.Retain())
			}
		}
		for _, b := range c.expired[call.handles[k]].copies {
			kept = append(kept, b.Retain())
		}
	}
	for i := range call.copies {
		kept = append(kept, call.copies[i].buf.Retain())
	}
	c.abandoned[id] = abandoned{call.inst, kept}
	c.mu.Unlock()
	c.settle(call, ErrStuck)
}

// returnAbandoned lets go of what an abandoned batch could read: it is back.
func (c *reading) returnAbandoned(id uint64) {
	c.mu.Lock()
	kept := c.abandoned[id].kept
	delete(c.abandoned, id)
	c.mu.Unlock()
	releaseBuffers(kept)
}

// lateResult takes the outputs of an abandoned batch.
func (c *reading) lateResult(h wire.Header, entries []wire.Entry, cur *wire.Cursor, in *wire.Chunk) error {
	for i := range entries {
		t, err := c.tensor("", &entries[i], cur, in, &returned{gone: true})
		if err != nil {
			return err
		}
		t.Release()
	}
	c.returnAbandoned(h.ID)
	return nil
}

// Detach forgets an instance that has been unloaded.
func (c *Conn) Detach(i *Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.instances[i.Number] == i {
		delete(c.instances, i.Number)
		c.freeBoardLocked(i.Board)
	}
}

// serve answers a call that the owner of the connection knows.
func (c *reading) serve(h wire.Header, body []byte) error {
	if c.opts.Serve == nil {
		return c.host.Refuse(h.ID)
	}
	text := json.RawMessage(append([]byte(nil), body...))
	return c.host.Run(h.ID, func() (any, error) { return c.opts.Serve(c.ctx, h.Kind, text) }) // binding takes its time
}
