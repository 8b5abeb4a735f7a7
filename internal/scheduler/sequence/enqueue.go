package sequence

import (
	"context"
	"strconv"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/scheduler"
)

// Enqueue adds a request to its sequence, or runs it at once if it completes a
// batch for an idle instance; see scheduler.Scheduler.
func (s *Scheduler) Enqueue(r *infer.Request) error {
	k, err := s.admit(r)
	if err != nil {
		return err
	}
	if r.Cancelled() {
		s.vanish(k)
		r.Fail(scheduler.ErrCancelled(), infer.Canceled)
		return nil
	}
	now := backend.Now()
	r.Times.Queue = now
	fx := s.drive.Lock()
	if s.drive.ClosedLocked() {
		s.drive.Unlock()
		return errStopping()
	}
	if s.core.iterative && r.Correlation.IsZero() {
		s.core.assigned++
		k = key{backend.CorrelationID{Number: s.core.assigned}, true}
		r.Correlation, r.Flags = k.CorrelationID, r.Flags|backend.SequenceStart
	}
	e := s.core.entries.Take()
	e.request, e.own.inputs = r, len(r.Inputs)
	e.start, e.end = r.Flags&backend.SequenceStart != 0, r.Flags&backend.SequenceEnd != 0 && !s.core.iterative
	refused, restarted := s.core.enqueue(now, k, e, fx)
	if refused != taken {
		s.core.release(e)
		s.drive.Unlock()
		return s.refused(refused, r)
	}
	wake := s.stepped(now, fx)
	queued, life := e.queueing, e.own.Life
	var ctx context.Context
	if queued {
		e.own.Pending = true
		s.stats.Enqueued()
		ctx = r.Ctx
	}
	var x *batch
	switch {
	case r.Detached:
		s.drive.EndAndStart(wake, nil)
	case r.Background:
		s.drive.End(wake, nil)
	default:
		x = s.drive.End(wake, e)
	}
	if restarted {
		s.log.Warn("sequence started again before it ended; the requests from now on belong to the new one", "sequence", name(k.CorrelationID))
	}
	if queued && ctx != nil && ctx.Done() != nil {
		s.drive.Watch(ctx, e, &e.own.Waiting, life)
	}
	if x != nil {
		s.drive.Run(x)
	}
	return nil
}

// admit checks what a request of a sequence must have, and returns its key.
func (s *Scheduler) admit(r *infer.Request) (key, error) {
	if r.BatchSize > 1 {
		return key{}, backend.Errorf(backend.InvalidArg,
			"inference request to model '%s' must specify batch-size 1 due to requirements of sequence batcher", s.model)
	}
	if r.Correlation.IsZero() && !s.core.iterative {
		return key{}, backend.Errorf(backend.InvalidArg,
			"inference request to model '%s' must specify a non-zero or non-empty correlation ID", s.model)
	}
	if !r.Correlation.IsZero() && (r.Flags&backend.SequenceStart != 0 || s.core.iterative) {
		if err := s.controls.check(r, s.model); err != nil {
			return key{}, err
		}
	}
	return key{r.Correlation, false}, nil
}

func (s *Scheduler) refused(why refusal, r *infer.Request) error {
	switch why {
	case noStart:
		return backend.Errorf(backend.InvalidArg,
			"inference request for sequence %s to model '%s' must specify the START flag on the first request of the sequence",
			name(r.Correlation), s.model)
	case full:
		return &backend.Error{
			Code: backend.Unavailable, RetryAfter: time.Second,
			Message: r.LogPrefix() + "Exceeds maximum queue size: the sequences of model '" + s.model + "' that wait for a slot have " +
				strconv.Itoa(s.core.limit) + " requests",
		}
	default:
		return errStopping()
	}
}

// name is a correlation ID as texts show it.
func name(id backend.CorrelationID) string {
	if id.Text != "" {
		return id.Text
	}
	return strconv.FormatUint(id.Number, 10)
}

func errStopping() *backend.Error {
	return backend.Errorf(backend.Unavailable, "Server is stopping, scheduler for model has stopped accepting new inference requests")
}

// vanish ends the sequence of a client that is gone already.
func (s *Scheduler) vanish(k key) {
	fx := s.drive.Lock()
	if q := s.core.active[k]; q != nil && !s.drive.ClosedLocked() {
		s.core.give(q, fx)
		s.drive.End(s.stepped(backend.Now(), fx), nil)
		return
	}
	s.drive.Unlock()
}

// End ends a sequence that nobody goes on with.
func (s *Scheduler) End(id backend.CorrelationID) { s.vanish(key{id, false}) }

// Holds reports whether a sequence has begun and not ended.
func (s *Scheduler) Holds(id backend.CorrelationID) bool {
	s.drive.Lock()
	defer s.drive.Unlock()
	return s.core.active[key{id, false}] != nil
}

// cancelled handles the end of a queued request's context. It is called with the
// lock held.
func (s *Scheduler) cancelled(now int64, e *entry, fx *effects) (wake int64) {
	s.core.cancel(e, fx)
	return s.stepped(now, fx)
}
