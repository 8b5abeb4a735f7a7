package engine

import (
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ratelimit"
)

// loops ends the calls of models that wait for each other in a circle: a model
// with one instance that calls itself, or two that call each other while all
// their instances wait. It looks only at calls that may lead back to their
// caller. Open loopgraph.go for the decision, which is pure.
type loops struct {
	mu     sync.Mutex
	active map[*waitingCall]struct{}
	last   uint64
}

// loopTick is how often a call that may wait in a circle is looked at. It is
// ended when nothing has changed in its circle from one look to the next.
const loopTick = time.Second

// waitingCall is a call under way. It is the Responder of its request.
type waitingCall struct {
	edge
	owner *loops
	to    backend.Responder
	timer *time.Timer // nil for a call that leads nowhere back
	// claims returns what the caller holds and its callees need; nil without a rate
	// limiter.
	claims func() (holds, needs []ratelimit.Claim)
	seen   uint64 // the state of its circle at the last look; 0 for none

	mu    sync.Mutex
	ended bool
}

// enter notes a call that needs callees, the called model first; loop says that
// it may lead back to its caller. With claims it may also wait for what its
// caller, or another one that waits, holds.
func (l *loops) enter(c backend.Caller, callees []node, loop bool, claims func() (holds, needs []ratelimit.Claim), to backend.Responder) *waitingCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active == nil {
		l.active = map[*waitingCall]struct{}{}
	}
	l.last++
	w := &waitingCall{owner: l, to: to, claims: claims, edge: edge{id: l.last, caller: node{c.Model, c.Version}, instance: c.Instance, of: c.Of, callees: callees}}
	l.active[w] = struct{}{}
	if loop || claims != nil {
		w.timer = time.AfterFunc(loopTick, w.look)
	}
	return w
}

// leave ends what enter began.
func (w *waitingCall) leave() {
	w.owner.mu.Lock()
	defer w.owner.mu.Unlock()
	delete(w.owner.active, w)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// look ends the call if it waits in a circle in which nothing moves.
func (w *waitingCall) look() {
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
		edges = append(edges, c.edge)
	}
	state := circle(edges, w.edge)
	stuck := state != 0 && state == w.seen
	w.seen = state
	if stuck {
		delete(l.active, w)
	} else {
		w.timer.Reset(loopTick)
	}
	l.mu.Unlock()
	if stuck {
		if name, short := newStuck(edges).short(w.edge); short {
			_ = w.Respond(&backend.Response{Err: backend.Errorf(backend.Internal,
				"model '%s' waits for model '%s', which waits for resource '%s' of the rate limiter: models that wait hold too much of it. Give it more units, or the two different resources", w.caller.model, w.callees[0].model, name)}, true)
			return
		}
		_ = w.Respond(&backend.Response{Err: backend.Errorf(backend.Internal,
			"model '%s' waits for model '%s', which waits for it: models call each other in a circle and have no free instance. Give them more instances (instance_group), or call from a coroutine", w.caller.model, w.callees[0].model)}, true)
	}
}

// Respond implements backend.Responder.
func (w *waitingCall) Respond(resp *backend.Response, final bool) error {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		resp.Release()
		return backend.Errorf(backend.Cancelled, "the call has ended")
	}
	w.ended = final
	w.mu.Unlock()
	if final {
		w.leave()
	}
	return w.to.Respond(resp, final)
}

// Cancelled implements backend.Responder.
func (w *waitingCall) Cancelled() bool { return w.to.Cancelled() }
