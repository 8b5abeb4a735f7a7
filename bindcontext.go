package neso

import (
	"context"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// callContext is the context of a function for one call: it ends with that of
// the request, with those of all the requests of a batch, when the server gives
// the instance up, or when the function has returned. Few functions look at it,
// hence nothing is made before one does.
type callContext struct {
	life     context.Context // of the instance
	requests []*backend.Request

	mu     sync.Mutex
	merged context.Context // nil before Done is asked for
	cancel context.CancelCauseFunc
	stops  []func() bool
	ended  bool
}

// single returns the context of the only request, or nil.
func (c *callContext) single() context.Context {
	if len(c.requests) == 1 {
		return c.requests[0].Ctx
	}
	return nil
}

// Deadline is the request's, or the last one of a batch whose requests all have
// one.
func (c *callContext) Deadline() (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		if r.Ctx == nil {
			return time.Time{}, false
		}
		d, has := r.Ctx.Deadline()
		if !has {
			return time.Time{}, false
		}
		if d.After(at) {
			at = d
		}
	}
	return at, len(c.requests) > 0
}

// callsKey is that of the Calls of a function's requests, for what it sends with its
// context.
type callsKey struct{}

// Value is the request's, or the server's in a batch of several.
func (c *callContext) Value(key any) any {
	c.mu.Lock()
	ctx := c.single()
	if key == (callsKey{}) {
		defer c.mu.Unlock()
		return callsOf(c.requests)
	}
	c.mu.Unlock()
	if ctx != nil {
		return ctx.Value(key)
	}
	return c.life.Value(key)
}

// callsOf are the Calls of requests that have any.
func callsOf(requests []*backend.Request) (all []any) {
	for _, r := range requests {
		if r.Calls != nil {
			all = append(all, r.Calls)
		}
	}
	return all
}

// Err looks without making anything.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.merged != nil {
		return c.merged.Err()
	}
	return c.errLocked()
}

func (c *callContext) errLocked() error {
	if err := c.life.Err(); err != nil {
		return err
	}
	if c.ended {
		return context.Canceled
	}
	var last error
	for _, r := range c.requests {
		if r.Ctx == nil || r.Ctx.Err() == nil {
			return nil
		}
		last = r.Ctx.Err()
	}
	return last
}

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.merged != nil {
		return c.merged.Done()
	}
	if ctx := c.single(); ctx != nil {
		// Its deadline and cause are to be seen, and there is nobody else to wait for.
		c.merged, c.cancel = context.WithCancelCause(ctx)
		c.stops = append(c.stops, context.AfterFunc(c.life, c.end(c.life)))
		return c.merged.Done()
	}
	c.merged, c.cancel = context.WithCancelCause(c.life)
	if c.ended {
		c.cancel(nil)
		return c.merged.Done()
	}
	left := len(c.requests)
	var mu sync.Mutex
	for _, r := range c.requests {
		if r.Ctx == nil || r.Ctx.Done() == nil {
			continue
		}
		end := c.end(r.Ctx)
		c.stops = append(c.stops, context.AfterFunc(r.Ctx, func() {
			mu.Lock()
			left--
			last := left == 0
			mu.Unlock()
			if last {
				end()
			}
		}))
	}
	return c.merged.Done()
}

func (c *callContext) end(of context.Context) func() {
	cancel := c.cancel
	return func() { cancel(context.Cause(of)) }
}

// close ends the context: the function has returned, and the requests may be
// gone.
func (c *callContext) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.requests = true, nil
	for _, stop := range c.stops {
		stop()
	}
	c.stops = nil
	if c.cancel != nil {
		c.cancel(nil)
	}
}
