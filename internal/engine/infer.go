package engine

import (
	"context"
	"log/slog"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/rollout"
)

// Resolve pins a version of a model for one request of bytes input bytes
// (reserved against the server-wide caps): the given version, or the latest ready
// one for -1. The caller must hand the pin on with Infer, or end it with Unpin.
// Errors carry the protocol's texts and codes, RetryAfter on overload. Where models are
// loaded on demand it waits for one that is not in, at most until ctx ends.
func (e *Engine) Resolve(ctx context.Context, name string, version int64, bytes int64) (Pin, error) {
	return e.ResolveFor(ctx, nil, nil, name, rollout.Ask{Version: version}, bytes)
}

// ResolveFor is Resolve for a caller with a key: whether it may use the model,
// and its quotas, are looked at before anything else. A nil caller may
// everything. conn is the share of the connection, nil for one that carries one
// request at a time. ask is which version the client wants.
func (e *Engine) ResolveFor(ctx context.Context, caller *auth.Caller, conn *ledger.Share, name string, ask rollout.Ask, bytes int64) (Pin,
	error,
) {
	return e.resolveFor(ctx, caller, conn, name, &ask, bytes, bytes, true)
}

// ResolveArriving is ResolveFor for a request of which bytes have come, and which
// says that it will be declared bytes long, or does not say it with -1. It is
// refused where those would not fit at present, but only what has come is
// reserved: the others are for infer.Request.Reserve as they come.
func (e *Engine) ResolveArriving(ctx context.Context, caller *auth.Caller, name string, ask rollout.Ask, bytes, declared int64) (Pin,
	error,
) {
	return e.resolveFor(ctx, caller, nil, name, &ask, bytes, max(bytes, declared), false)
}

func (e *Engine) resolveFor(ctx context.Context, caller *auth.Caller, conn *ledger.Share, name string, ask *rollout.Ask,
	bytes, declared int64, whole bool,
) (Pin, error) {
	var usage *auth.Usage
	if caller != nil {
		var refusal *backend.Error
		if usage, refusal = caller.Enter(name, bytes, declared); refusal != nil {
			auth.Note(e.refusals, refusal, slog.String("model", name))
			return Pin{}, refusal
		}
	}
	p, err := e.resolve(ctx, ledger.Asker{Conn: conn, Key: caller.Share()}, name, ask, bytes, whole)
	if err == nil && declared > bytes && !e.admission.ledger.Fits(ledger.In, declared-bytes) {
		p.Unpin()
		err = e.admission.ledger.Refusal(ledger.In, declared)
	}
	switch {
	case usage == nil:
		return p, err
	case err != nil:
		usage.Leave(bytes)
		return Pin{}, err
	}
	p.payer = usage
	return p, nil
}

func (e *Engine) resolve(ctx context.Context, by ledger.Asker, name string, ask *rollout.Ask, bytes int64, whole bool) (Pin, error) {
	state := e.State()
	if state != Ready && (state != Exiting || !e.continuing.Load()) {
		return Pin{}, notReady()
	}
	if !e.admission.enterExternal() {
		return Pin{}, notReady()
	}
	room, refusal := e.admission.enter(by, bytes, whole)
	if refusal != nil {
		e.admission.leaveExternal()
		return Pin{}, refusal
	}
	m, route := e.life.PinAsked(name, ask)
	if m == nil {
		var err error
		if m, route, err = e.bring(ctx, name, ask); err != nil {
			e.admission.leave(room)
			e.admission.leaveExternal()
			return Pin{}, err
		}
	}
	if e.demand != nil {
		m.Use(backend.Now())
	}
	p := Pin{Model: m, room: room, e: e, external: true, route: route}
	if state == Exiting && !e.continues(p.Model) {
		p.Unpin()
		return Pin{}, notReady()
	}
	return p, nil
}

// continues reports whether requests to m may belong to a sequence that has begun,
// its own or one of a model that it is an ensemble of.
func (e *Engine) continues(m *model.Model) bool {
	c := m.Config()
	return c.Sequence != nil || c.Ensemble != nil && slices.ContainsFunc(c.Ensemble.Steps, func(s modelconfig.Step) bool {
		step := e.life.Find(s.Model, s.Version)
		return step != nil && e.continues(step)
	})
}

// pinFor is Resolve for requests from inside the server, which pass also while
// it stops, or the model that sends them is being unloaded: it still works for a
// request, and may need another model.
func (e *Engine) pinFor(ctx context.Context, caller, name string, ask *rollout.Ask, bytes int64) (Pin, error) {
	room, refusal := e.admission.enter(ledger.Asker{}, bytes, true)
	if refusal != nil {
		return Pin{}, refusal
	}
	m := e.life.PinInside(caller, name, ask)
	if m == nil {
		var err error
		if m, err = e.bringFor(ctx, caller, name, ask); err != nil {
			e.admission.leave(room)
			return Pin{}, err
		}
	}
	if e.demand != nil {
		m.Use(backend.Now())
	}
	return Pin{Model: m, room: room, e: e}, nil
}

// Pin is a model version held for one request.
type Pin struct {
	Model *model.Model
	room  ledger.Room
	e     *Engine
	// external marks a request that came through a front end.
	external bool
	payer    infer.Payer    // nil without keys
	route    *rollout.Route // nil for a model without rules for its versions
}

// Unpin lets go of a pin that was not handed to Infer.
func (p Pin) Unpin() {
	p.e.end(p.Model, p.room, p.external, p.payer)
}

// NewRequest returns a request pinned to p's version that answers into sink.
// The pin and its reserved bytes end with the request (also with Discard).
func (p Pin) NewRequest(sink infer.Sink) *infer.Request {
	// One of two functions made once, so that a request needs none of its own.
	done := p.e.endInternal
	if p.external {
		done = p.e.endExternal
	}
	r := infer.New(sink, done)
	r.Owner, r.Room, r.Growth, r.OnAbandoned = p.Model, p.room, p.e.growth, p.e.abandonInternal
	if p.external {
		r.OnAbandoned = p.e.abandonExternal
	}
	r.Payer, r.Route = p.payer, p.route
	r.ModelName, r.ModelVersion = p.Model.Config().Name, p.Model.Version()
	return r
}

func (e *Engine) endRequest(r *infer.Request, external bool) {
	m := r.Owner.(*model.Model)
	e.recent.Ended(r)
	if r.Route != nil && !r.Abandoned {
		e.routed(r)
	}
	if r.Abandoned {
		m.Abandon(false)
		external = false // the server has ceased to count it
	}
	r.LeavePayer()
	e.end(m, r.Room, external, nil)
}

// abandonRequest ceases to count a request that has been answered, but whose
// execution may never come back: neither the server's stop nor that of its model
// waits for it. Its inputs and their bytes stay taken.
func (e *Engine) abandonRequest(r *infer.Request, external bool) {
	if r.Route != nil {
		e.routed(r) // nobody knows when it ends
	}
	r.Abandoned = true
	r.Owner.(*model.Model).Abandon(true)
	if external {
		e.admission.leaveExternal()
	}
	r.LeavePayer()
}

// grow reserves further bytes for a request; fewer than none are given back.
func (e *Engine) grow(r *infer.Request, bytes int64) *backend.Error {
	if bytes < 0 {
		r.Room.Shrink(e.admission.ledger, -bytes)
		if r.Payer != nil {
			_ = r.Payer.Grow(bytes)
		}
		return nil
	}
	if !r.Room.Extend(e.admission.ledger, bytes) {
		return e.admission.ledger.Refusal(ledger.In, bytes)
	}
	if r.Payer != nil {
		if err := r.Payer.Grow(bytes); err != nil {
			r.Room.Shrink(e.admission.ledger, bytes)
			return err
		}
	}
	return nil
}

// end lets go of what a request held.
func (e *Engine) end(m *model.Model, room ledger.Room, external bool, payer infer.Payer) {
	m.Unpin()
	e.admission.leave(room)
	if payer != nil {
		payer.Leave(room.Bytes)
	}
	if external {
		e.admission.leaveExternal()
	}
}

// Infer is hop 2: it comes from a front end (hop 1) and goes on to model.Infer
// (hop 3). An error is a refusal; then the request has been discarded and its
// sink is never called.
func (e *Engine) Infer(r *infer.Request) error {
	m := r.Owner.(*model.Model)
	processors.Work()
	if r.Ctx == nil {
		r.Ctx = context.Background()
	}
	if err := m.Settle(r); err != nil {
		e.recent.Refused(r, err)
		r.Discard()
		return err
	}
	if r.Calls = nil; e.recent.Watched() { // a copy of another request has that one's
		r.Follow()
	}
	if output := m.TextOutput(); output != "" {
		r.Text = e.texts.Begin(m.Config().Name, m.Version(), output, r.Times.Receive)
	}
	timeline := r.Timeline
	if timeline != nil {
		timeline.Begin(r)
	}
	var copied *requestCopy
	if r.Route != nil {
		copied = e.begin(r)
	}
	if err := m.Infer(r); err != nil {
		if r.Route != nil {
			e.refused(r, copied, err)
		}
		if timeline != nil {
			timeline.End(r, err)
		}
		e.recent.Refused(r, err)
		r.Discard()
		return err
	}
	return nil
}

func notReady() error { return backend.Errorf(backend.Unavailable, "Server not ready") }
