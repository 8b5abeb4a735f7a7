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

// Stuck reports whether a batch of the instance was given up, or has not come
// back in time, and is still not back.
func (i *Instance) Stuck() bool {
	i.conn.mu.Lock()
	defer i.conn.mu.Unlock()
	return i.pipeline.Stuck()
}

// Overdue returns how many batches have not come back in time.
func (i *Instance) Overdue() int { return i.pipeline.Overdue() }

// expire answers the requests of a batch that is not back in time. The inputs
// stay where they are: the worker may still read them.
func (c *reading) expire(id uint64) {
	c.mu.Lock()
	b := c.batches.Expire(id)
	c.mu.Unlock()
	if b == nil {
		return
	}
	err := backend.Errorf(backend.Unavailable, "inference of model '%s' timed out after %v", b.Instance.Name, b.Instance.Timeout)
	c.logger().Error("inference timed out, its instance is blocked until it returns")
	for _, h := range b.Handles {
		c.mu.Lock()
		r, ok := c.batches.ExpireRequest(h)
		c.mu.Unlock()
		if !ok {
			continue
		}
		resp := &backend.Response{Err: err}
		switch {
		case r.Stream != nil:
			r.Stream.Push(stream.Item{Resp: resp, Final: true}, c.closing)
		case r.Sent:
			_ = r.Request.Respond(nil, true)
		default:
			_ = r.Request.Respond(resp, true) // a cancelled request needs nothing more
		}
	}
}

// lateLocked takes a response to a request that has been answered by its
// timeout, and returns what the worker no longer reads.
func (c *Conn) lateLocked(handle uint64, flags uint32) []*tensor.Buffer {
	r, ok := c.batches.Late(handle, flags)
	if ok && flags&wire.ResponseRetained != 0 {
		c.holdLocked(&r)
	}
	return r.Copies
}

// abandon ends a batch that the worker does not give back. What the worker may
// still read is kept until it does, or until it dies.
func (c *reading) abandon(id uint64) {
	c.mu.Lock()
	b := c.batches.Abandon(id)
	if b != nil {
		c.limitEndedLocked(b.Instance, id)
	}
	c.mu.Unlock()
	if b != nil {
		c.settle(b, ErrStuck)
	}
}

// returnAbandoned lets go of what an abandoned batch could read: it is back.
func (c *reading) returnAbandoned(id uint64) {
	c.mu.Lock()
	kept := c.batches.Returned(id)
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
