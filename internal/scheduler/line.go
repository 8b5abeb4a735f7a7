package scheduler

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/stats"
)

// Line has requests run in the order in which they came although nobody waits for them
// where they come from: each goes to the scheduler on a goroutine of its own, once the one
// before it has its place on an instance. Only the first waits for an instance; the others
// count as pending, and leave when they are cancelled.
type Line struct {
	enqueue func(*infer.Request) error
	stats   *stats.Version

	mu      sync.Mutex
	moving  bool    // someone has the turn
	waiting []*turn // those that were cancelled stay until it is theirs
}

// NewLine returns a line before a scheduler.
func NewLine(s Scheduler, v *stats.Version) *Line { return &Line{enqueue: s.Enqueue, stats: v} }

// turn is a request in a line.
type turn struct {
	line   *Line
	r      *infer.Request
	passed atomic.Bool
	waits  bool        // under Line.mu
	forget func() bool // ends the look at its context
}

// Add takes a request, which is answered in any case, and does not wait.
func (l *Line) Add(r *infer.Request) {
	t := &turn{line: l, r: r}
	r.Times.Queue, r.Taken = backend.Now(), t.pass
	l.mu.Lock()
	first := !l.moving
	if first {
		l.moving = true
	} else {
		t.waits = true
		l.waiting = append(l.waiting, t)
		l.stats.Enqueued()
		if r.Ctx != nil && r.Ctx.Done() != nil {
			t.forget = context.AfterFunc(r.Ctx, t.cancel)
		}
	}
	l.mu.Unlock()
	if first {
		go t.run()
	}
}

// run ends with the request's execution, whose pin holds the version.
func (t *turn) run() {
	if err := t.line.enqueue(t.r); err != nil {
		t.r.Fail(err, infer.Rejected)
	}
	t.pass() // of one that came to no instance
}

// pass gives the turn to the next one, once.
func (t *turn) pass() {
	if t.passed.Swap(true) {
		return
	}
	l := t.line
	l.mu.Lock()
	next := l.nextLocked()
	l.moving = next != nil
	l.mu.Unlock()
	if next == nil {
		return
	}
	if next.forget != nil {
		next.forget()
	}
	l.stats.Dequeued()
	go next.run()
}

func (l *Line) nextLocked() *turn {
	for len(l.waiting) > 0 {
		next := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		if next.waits {
			next.waits = false
			return next
		}
	}
	l.waiting = nil
	return nil
}

// cancel answers a request that still waits for its turn.
func (t *turn) cancel() {
	l := t.line
	l.mu.Lock()
	waited := t.waits
	t.waits = false
	l.mu.Unlock()
	if waited {
		l.stats.Dequeued()
		t.r.Fail(ErrCancelled(), infer.Canceled)
	}
}
