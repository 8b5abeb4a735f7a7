package caches

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/native/caches/host"
	"github.com/nesoserve/neso/tensor"
)

// Lookup implements backend.Cache.
func (c *cache) Lookup(ctx context.Context, key string) (value []byte, release func(), err error) {
	resp, err := c.call(ctx, key, nil, false)
	if err != nil || resp == nil {
		return nil, func() {}, err
	}
	if len(resp.Outputs) == 0 {
		resp.Release()
		return nil, func() {}, nil
	}
	return resp.Outputs[0].Data, resp.Release, nil
}

// Insert implements backend.Cache.
func (c *cache) Insert(ctx context.Context, key string, value []byte) error {
	resp, err := c.call(ctx, key, value, true)
	resp.Release()
	return err
}

// outcome is what has come of a call.
type outcome struct {
	resp *backend.Response
	err  error
}

// call has a slot do something, and returns when ctx ends at the latest. A call that
// nobody waits for goes on: its slot comes back with it, or with the end of the process.
func (c *cache) call(ctx context.Context, key string, value []byte, insert bool) (*backend.Response, error) {
	if !c.enter() {
		return nil, backend.Errorf(backend.Unavailable, "response cache '%s' has been closed", c.name)
	}
	var l *slot
	select {
	case l = <-c.idle:
	case <-ctx.Done():
		c.calls.Done()
		return nil, backend.Errorf(backend.Unavailable, "response cache '%s': all its calls are taken", c.name)
	}
	r := &request{done: make(chan outcome, 1)}
	r.BatchSize, r.Ctx, r.Responder = 1, c.life, r
	r.Inputs = []tensor.Tensor{bytes(host.Tables.Inputs[0], []byte(key))}
	if insert {
		r.Inputs = append(r.Inputs, bytes(host.Tables.Inputs[1], value))
	}
	go func() {
		defer c.calls.Done()
		defer func() { c.idle <- l }()
		batch := &backend.Batch{Requests: []*backend.Request{&r.Request}, Size: 1}
		err := c.worker.ExecuteAs(c.life, batch, func(lead *worker.Instance) *worker.Instance {
			if in := l.at.Load(); in != nil && in.Conn() == lead.Conn() {
				return in
			}
			return nil
		})
		r.finish(err)
	}()
	select {
	case o := <-r.done:
		return o.resp, o.err
	case <-ctx.Done():
		r.abandon()
		return nil, backend.Errorf(backend.Unavailable, "response cache '%s' did not answer in time", c.name)
	}
}

// enter counts a call that Close waits for, unless it has begun.
func (c *cache) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.calls.Add(1)
	return true
}

func bytes(name string, b []byte) tensor.Tensor {
	return tensor.Tensor{Name: name, Datatype: tensor.Uint8, Shape: tensor.Shape{int64(len(b))}, Data: b}
}
