package scheduler

import (
	"context"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/stats"
)

// Direct is the default scheduler: each request is a batch of its own and runs
// at once, on the goroutine that brings it. There is no queue apart from
// waiting for a free instance, which ends with the request's context. What was
// sent to an instance that has not begun it waits again, where it stood before.
type Direct struct {
	executor Capacity
	stats    *stats.Version
	life     context.Context
	end      context.CancelFunc
}

// Capacity is hop 5 as the default scheduler sees it: instances that count what
// they hold.
type Capacity interface {
	// TryAcquire takes room on the instance with the least to do; it returns
	// false when there is none, or when others wait for it.
	TryAcquire() (int, bool)
	// Acquire waits for room until ctx ends or stop is closed, before those who have a
	// later since (of backend.Now).
	Acquire(ctx context.Context, stop <-chan struct{}, since int64) (int, error)
	// Release gives it back.
	Release(instance int)
	// ExecuteOne runs a request on the calling goroutine and answers it, or says that
	// the instance has not begun it: then it is as it was.
	ExecuteOne(instance int, r *infer.Request) (begun bool)
	// AcquireInOrder is Acquire for requests that keep their order: the next one gets room
	// when Entered has been called for the one before.
	AcquireInOrder(ctx context.Context, stop <-chan struct{}, since int64) (int, error)
	TryAcquireInOrder() (int, bool)
	Entered()
}

// NewDirect returns a default scheduler.
func NewDirect(x Capacity, v *stats.Version) *Direct {
	d := &Direct{executor: x, stats: v}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// Enqueue runs the request on the calling goroutine; see Scheduler.
func (d *Direct) Enqueue(r *infer.Request) error {
	if d.life.Err() != nil {
		return ErrStopping(r)
	}
	if r.Taken != nil {
		d.inOrder(r)
		return nil
	}
	for {
		if r.Cancelled() {
			r.Fail(ErrCancelled(), infer.Canceled)
			return nil
		}
		i, ok := d.executor.TryAcquire()
		if !ok {
			if i, ok = d.wait(r, d.executor.Acquire); !ok {
				return nil
			}
		}
		begun := d.executor.ExecuteOne(i, r)
		d.executor.Release(i)
		if begun {
			return nil
		}
		if d.life.Err() != nil {
			r.Fail(ErrStopping(r), infer.Other)
			return nil
		}
	}
}

// inOrder is Enqueue for a request that keeps its order.
func (d *Direct) inOrder(r *infer.Request) {
	for taken := r.Taken; ; {
		switch {
		case r.Cancelled():
			r.Fail(ErrCancelled(), infer.Canceled)
			return
		case d.life.Err() != nil:
			r.Fail(ErrStopping(r), infer.Other)
			return
		}
		i, ok := d.executor.TryAcquireInOrder()
		if !ok {
			if i, ok = d.wait(r, d.executor.AcquireInOrder); !ok {
				return
			}
		}
		var entered atomic.Bool
		r.Taken = func() {
			if !entered.Swap(true) {
				taken()
				d.executor.Entered()
			}
		}
		begun := d.executor.ExecuteOne(i, r)
		if !entered.Swap(true) { // it came to no place there
			d.executor.Entered()
		}
		d.executor.Release(i)
		if begun {
			return
		}
	}
}

// wait acquires room while the request counts as pending. When there is
// none in time the request has been answered.
func (d *Direct) wait(r *infer.Request, acquire func(context.Context, <-chan struct{}, int64) (int, error)) (int, bool) {
	ctx := r.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	if r.Times.Queue == 0 {
		r.Times.Queue = backend.Now()
	}
	d.stats.Enqueued()
	i, err := acquire(ctx, d.life.Done(), r.Times.Queue)
	d.stats.Dequeued()
	if err == nil && d.life.Err() != nil {
		if r.Taken != nil {
			d.executor.Entered()
		}
		d.executor.Release(i) // what closing set free is not for new work
		err = ErrStopping(r)
	}
	switch {
	case err == nil:
		return i, true
	case r.Cancelled():
		r.Fail(ErrCancelled(), infer.Canceled)
	default: // closing is the only other reason to stop waiting
		r.Fail(ErrStopping(r), infer.Other)
	}
	return 0, false
}

// Change implements Scheduler: the executor counts itself.
func (d *Direct) Change(_, leave []int, left func(int)) (bound []int) {
	for _, i := range leave {
		left(i)
	}
	return nil
}

// Close fails the requests that wait for an instance.
func (d *Direct) Close(context.Context) error {
	d.end()
	return nil
}
