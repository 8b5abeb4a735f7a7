// Package turns owns how many loads run at the same time, and that those that do not end
// do not keep the others out for ever.
//
// Open turns.go.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Turns are the places of loads. A load that has lasted for the patience gives its place to
// another one, though it goes on: nobody can tell whether it is slow or hangs.
type Turns struct {
	places   chan struct{}
	patience time.Duration

	mu sync.Mutex
	// late is how many loads go on without a place, most how many may: what hangs keeps
	// memory, and what is slow the processors.
	late, most int
	overdue    []*turn // that keep their place since too many are late
}

type turn struct {
	late, ended bool
	told        func()
}

// New returns so many places, and so much patience; 0 is for ever. Up to most loads may go
// on without a place.
func New(places int, patience time.Duration, most int) *Turns {
	return &Turns{places: make(chan struct{}, max(1, places)), patience: patience, most: most}
}

// Places is how many there are.
func (t *Turns) Places() int { return cap(t.places) }

// Take waits for a place, which end gives back. late is called if that is given to another
// load before.
func (t *Turns) Take(ctx context.Context, late func()) (end func(), err error) {
	select {
	case t.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	x := &turn{told: late}
	stop := func() bool { return true }
	if t.patience > 0 {
		stop = time.AfterFunc(t.patience, func() { t.pass(x) }).Stop
	}
	return func() {
		stop()
		t.end(x)
	}, nil
}

// pass gives the place of a load that lasts long to another one.
func (t *Turns) pass(x *turn) {
	t.mu.Lock()
	late := !x.ended && t.passLocked(x)
	t.mu.Unlock()
	if late {
		x.told()
	}
}

// passLocked reports whether the load is late now: otherwise it is when another one ends.
func (t *Turns) passLocked(x *turn) bool {
	if t.late == t.most {
		t.overdue = append(t.overdue, x)
		return false
	}
	t.late++
	x.late = true
	<-t.places
	return true
}

func (t *Turns) end(x *turn) {
	if next := t.ends(x); next != nil {
		next.told()
	}
}

// ends returns the load that is late now in place of this one, if there is one.
func (t *Turns) ends(x *turn) (next *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.ended = true
	if !x.late {
		t.overdue = slices.DeleteFunc(t.overdue, func(o *turn) bool { return o == x })
		<-t.places
		return nil
	}
	t.late--
	if len(t.overdue) == 0 {
		return nil
	}
	next = t.overdue[0] // it has not ended: those that have are not among them
	t.overdue = slices.Delete(t.overdue, 0, 1)
	t.passLocked(next)
	return next
}
