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
	// Change says that the instances of come take requests from now on, and that
	// those of leave are to get none that are not bound to them already. left is
	// called for each of leave, by any goroutine and perhaps at once, when the
	// scheduler has nothing for it any more, unless Close comes before; it must not
	// wait. Change returns those of leave that sequences are bound to. It is called by
	// one goroutine at a time, and never leaves a scheduler without instances.
	Change(come, leave []int, left func(instance int)) (bound []int)
	// Close refuses new requests, fails those that still wait, and stops the
	// scheduler's goroutines; ctx bounds the wait for them. Batches that run go
	// on: their requests hold the version (model.Pin), and its owner waits for
	// them. It may be called more than once.
	Close(ctx context.Context) error
}

// Instances is what every batcher knows of the instances that run its batches,
// which is hop 5.
type Instances interface {
	// Instances returns how many there are at first, numbered from 0; see
	// Scheduler.Change.
	Instances() int
	// Depth returns how many batches one instance runs at once, at least 1.
	Depth() int
	// Limits says when an instance may run; nil when nothing but free room is
	// needed. A scheduler that gets limits runs one batch at a time on an instance:
	// it asks before and releases after.
	Limits() *ratelimit.Group
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
