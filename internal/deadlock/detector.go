// Package deadlock ends calls of models that wait for each other in a circle: a
// model with one instance that calls itself, or two that call each other while
// all their instances wait. Open graph.go for the decision, which is pure, then
// detector.go.
package deadlock

import (
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ratelimit"
)

// Detector knows the calls under way. It looks only at those that may lead back
// to their caller. The zero value knows none.
type Detector struct {
	mu     sync.Mutex
	active map[*Call]struct{}
	last   uint64
}

// tick is how often a call that may wait in a circle is looked at. It is
// ended when nothing has changed in its circle from one look to the next.
const tick = time.Second

// Call is a call under way. It is the Responder of its request.
type Call struct {
	edge
	owner *Detector
	to    backend.Responder
	timer *time.Timer // nil for a call that leads nowhere back
	// claims returns what the caller holds and its callees need; nil without a rate
	// limiter.
	claims func() (holds, needs []ratelimit.Claim)
	size   func() int // how many instances the caller has by now; nil: as many as it says
	seen   uint64     // the state of its circle at the last look; 0 for none

	mu    sync.Mutex
	ended bool
}

// Enter notes a call that needs callees, the called model first; loop says that
// it may lead back to its caller. With claims it may also wait for what its
// caller, or another one that waits, holds. size is asked at each look.
func (l *Detector) Enter(c backend.Caller, callees []Node, loop bool, claims func() (holds, needs []ratelimit.Claim), size func() int,
	to backend.Responder,
) *Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active == nil {
		l.active = map[*Call]struct{}{}
	}
	l.last++
	w := &Call{owner: l, to: to, claims: claims, size: size, edge: edge{
		id: l.last, caller: Node{c.Model, c.Version}, instance: c.Instance,
		of: c.Of, callees: callees,
	}}
	l.active[w] = struct{}{}
	if loop || claims != nil {
		w.timer = time.AfterFunc(tick, w.look)
	}
	return w
}

// Leave ends what Enter began.
func (w *Call) Leave() {
	w.owner.mu.Lock()
	defer w.owner.mu.Unlock()
	delete(w.owner.active, w)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// look ends the call if it waits in a circle in which nothing moves.
func (w *Call) look() {
	l := w.owner
	l.mu.Lock()
	if _, waits := l.active[w]; !waits {
		l.mu.Unlock()
		return
	}
	edges := make([]edge, 0, len(l.active))
	for c := range l.active {
		if c.claims != nil {
			c.holds, c.needs = c.claims()
		}
		if c.size != nil {
			c.of = c.size()
		}
		edges = append(edges, c.edge)
	}
	state := circle(edges, w.edge)
	stuck := state != 0 && state == w.seen
	w.seen = state
	if stuck {
		delete(l.active, w)
	} else {
		w.timer.Reset(tick)
	}
	l.mu.Unlock()
	if stuck {
		if name, short := newStuck(edges).short(w.edge); short {
			_ = w.Respond(&backend.Response{Err: backend.Errorf(backend.Internal,
				"model '%s' waits for model '%s', which waits for resource '%s' of the rate limiter: models that wait hold too much of it. Give it "+
					"more units, or the two different resources", w.caller.Model, w.callees[0].Model, name)}, true)
			return
		}
		_ = w.Respond(&backend.Response{Err: backend.Errorf(backend.Internal,
			"model '%s' waits for model '%s', which waits for it: models call each other in a circle and have no free instance. Give them more "+
				"instances (instance_group), or call from a coroutine", w.caller.Model, w.callees[0].Model)}, true)
	}
}

// Respond implements backend.Responder.
func (w *Call) Respond(resp *backend.Response, final bool) error {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		resp.Release()
		return backend.Errorf(backend.Cancelled, "the call has ended")
	}
	w.ended = final
	w.mu.Unlock()
	if final {
		w.Leave()
	}
	return w.to.Respond(resp, final)
}

// Cancelled implements backend.Responder.
func (w *Call) Cancelled() bool { return w.to.Cancelled() }
