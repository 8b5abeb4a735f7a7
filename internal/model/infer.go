package model

import (
	"github.com/nesoserve/neso/internal/infer"
)

// Infer is hop 3: it comes from engine.Infer (hop 2) with a pinned request and
// hands it to the scheduler (hop 4). It checks the request against the
// configuration and looks it up in the response cache (cache.go), which may
// answer it. An error is a refusal: the request has not been answered.
// Otherwise it is, or will be, answered through its sink. Infer may run the
// request on the calling goroutine.
func (m *Model) Infer(r *infer.Request) error {
	if r.Owner == nil {
		r.Owner = m
	}
	if err := m.io.check(r); err != nil {
		return err
	}
	m.prioritize(r)
	if r.Timeline != nil {
		r.Timeline.Queue(r)
	}
	if m.cache != nil {
		return m.inferCached(r)
	}
	return m.enqueue(r)
}

// enqueue hands the request to the scheduler.
func (m *Model) enqueue(r *infer.Request) error {
	switch {
	case r.Detached && m.line != nil && !m.quick:
		m.line.Add(r)
	case r.Detached && (m.waits() && !m.quick || r.Cancelled()), m.lingers && (!r.Detached || m.waits()):
		// It ends with the request, whose pin holds the version.
		go func() {
			if err := m.scheduler.Enqueue(r); err != nil {
				r.Fail(err, infer.Rejected)
			}
		}()
	default:
		return m.scheduler.Enqueue(r)
	}
	return nil
}

// waits reports whether the scheduler may run the model, or wait for it, on the
// goroutine that brings a request whatever that has to do otherwise.
func (m *Model) waits() bool { return m.config.Dynamic == nil && m.config.Sequence == nil }

// prioritize maps the request's priority to a level of this model: 0 and what
// is above the last level mean the default one.
func (m *Model) prioritize(r *infer.Request) {
	d := m.config.Dynamic
	switch {
	case m.graph != nil: // an ensemble has no levels, its steps may have
	case d == nil || d.PriorityLevels == 0:
		r.Priority = 0
	case r.Priority == 0 || r.Priority > d.PriorityLevels:
		r.Priority = d.DefaultPriorityLevel
	}
}
