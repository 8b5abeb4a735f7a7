package dynamic

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// question is what a model is asked about: requests that it reads. They are held, as
// the originals may be answered meanwhile.
type question struct {
	requests []*backend.Request
	held     []*infer.Request
}

// askLocked puts the question that the last step has made, if it has made one.
func (s *Scheduler) askLocked() {
	if len(s.core.due) == 0 {
		return
	}
	var q question
	for _, e := range s.core.due {
		look := e.request.Request
		look.Ctx, look.Responder, look.Iterations = context.Background(), nil, nil
		e.request.Hold()
		q.requests, q.held = append(q.requests, &look), append(q.held, e.request)
	}
	clear(s.core.due)
	s.core.due = s.core.due[:0]
	s.asking.Go(func() { s.ask(q) })
}

// ask brings the model's answer to the batcher.
func (s *Scheduler) ask(q question) {
	joined, err := s.joins(q.requests)
	if err != nil {
		joined = len(q.requests) // as without a strategy
	}
	for _, r := range q.held {
		r.Drop()
	}
	wake := int64(0)
	fx := s.drive.Lock()
	s.core.answered(joined)
	if !s.drive.ClosedLocked() {
		wake = s.stepped(backend.Now(), fx)
	}
	s.drive.End(wake, nil)
}
