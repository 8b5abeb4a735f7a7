package scheduler

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/ratelimit"
)

// Scheduler takes the requests of one model version, checked and normalized.
type Scheduler interface {
	// Enqueue is hop 4: it comes from model.Infer (hop 3) and leads to
	// instance.Pool.Execute (hop 5). An error is a refusal: the request has not
	// been answered. Otherwise it is, or will be, answered. The request may be
	// executed on the calling goroutine.
	Enqueue(r *infer.Request) error
	// Close refuses new requests, fails those that still wait, and stops the
	// scheduler's goroutines; ctx bounds the wait for them. Batches that run go
	// on: their requests hold the version (model.Pin), and its owner waits for
	// them. It may be called more than once.
	Close(ctx context.Context) error
}

// Executor is hop 5 as schedulers see it: instances that run batches.
type Executor interface {
	// Instances returns how many there are, numbered from 0.
	Instances() int
	// Depth returns how many batches one instance runs at once, at least 1.
	Depth() int
	// Ahead reports whether a busy instance may be sent one more batch before it has
	// begun it, since it is quick. Such a batch may come back, see Execute.
	Ahead(instance int) bool
	// Up reports whether an instance can begin something, and OnUp has f called each
	// time that one can again. f may be called on any goroutine.
	Up(instance int) bool
	OnUp(f func())
	// Limits says when an instance may run; nil when nothing but a free place is
	// needed. A scheduler that gets limits runs one batch at a time on an instance:
	// it asks before and releases after.
	Limits() *ratelimit.Group
	// TryAcquire takes a place on the instance with the least to do; it returns
	// false when there is none, or when others wait for one.
	TryAcquire() (int, bool)
	// Acquire waits for a place until ctx ends, before those who have a later since
	// (of backend.Now).
	Acquire(ctx context.Context, since int64) (int, error)
	// Release gives a place back.
	Release(instance int)
	// Execute runs a batch on the calling goroutine and answers each of its
	// requests, or says that the instance has not begun it: then it is as it was, and
	// belongs into the queue. A scheduler that counts places itself need not acquire
	// one.
	Execute(instance int, requests []*infer.Request) (begun bool)
	// ExecuteOne is Execute for a batch of one request.
	ExecuteOne(instance int, r *infer.Request) (begun bool)
	// Insist is Execute for a batch that cannot go elsewhere: it waits until the
	// instance has begun it.
	Insist(instance int, requests []*infer.Request)
}

// ErrStopping returns the refusal of a scheduler that is closing.
func ErrStopping(r *infer.Request) *backend.Error {
	return &backend.Error{
		Code:    backend.Unavailable,
		Message: r.LogPrefix() + "Server is stopping, scheduler for model has stopped accepting new inference requests",
	}
}

// ErrCancelled returns the answer to a request that was cancelled before it ran.
func ErrCancelled() *backend.Error { return &backend.Error{Code: backend.Cancelled} }
