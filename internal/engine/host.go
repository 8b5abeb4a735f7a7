package engine

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/deadlock"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/lifecycle"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/tensor"
)

// host is what backends may ask of the server.
type host struct{ e *Engine }

func (h *host) Allocator() tensor.Allocator { return h.e.o.Allocator }

func (h *host) Logger() *slog.Logger { return h.e.log }

// Infer sends a request of a model to another one. The inputs are the caller's
// until the final response; the request takes references of its own, since a
// backend may hold it for a moment longer.
func (h *host) Infer(req *backend.Request) error {
	err := h.infer(req)
	if err != nil {
		// The peer's text; as there, whatever it was is an internal error of the caller.
		return backend.Errorf(backend.Internal, "Model %s - Error when running inference: %v", req.ModelName, err)
	}
	return nil
}

func (h *host) infer(req *backend.Request) error {
	if len(req.Correlation.Text) > 128 {
		return backend.Errorf(backend.InvalidArg, "string correlation ID cannot be longer than 128 characters")
	}
	var bytes int64
	for i := range req.Inputs {
		bytes += int64(req.Inputs[i].Size())
	}
	model, ask := h.e.Inside(req.ModelName, req.ModelVersion)
	p, err := h.e.pinFor(req.Ctx, req.Caller.Model, model, &ask, bytes)
	if err != nil {
		if h.e.demand == nil && ask.Label == "" && h.e.life.Find(model, ask.Version) == nil {
			return backend.Errorf(backend.Internal, "Failed for execute the inference request. Model '%s' is not ready.", req.ModelName)
		}
		return err
	}
	p = p.follow(&ask, req.Correlation)
	if req.Caller.Single && p.Model.Config().Decoupled {
		p.Unpin()
		return backend.Errorf(backend.Internal, "Model %s is using the decoupled. "+
			"The current BLS request call doesn't support models using the decoupled transaction policy. "+
			"Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'", req.ModelName)
	}
	responder, leave := req.Responder, func() {}
	if c := req.Caller; c.Model != "" {
		loop := h.e.life.Called(c.Model, model)
		if loop && c.Abandoned {
			p.Unpin()
			return backend.Errorf(backend.Cancelled, "nobody waits for the request that makes this call, which leads back to its model")
		}
		if needs := h.e.needs(p.Model, loop); c.Waits {
			waiting := h.e.deadlocks.Enter(c, needs, loop, h.e.claims(c, needs), h.e.size(c), req.Responder)
			responder, leave = waiting, waiting.Leave
		}
	}
	r := p.NewRequest(forward{responder})
	own, name, version := r.Responder, r.ModelName, r.ModelVersion
	r.Request = *req
	r.Responder, r.ModelName, r.ModelVersion = own, name, version
	r.Iterations = nil // the caller's scheduler takes back the caller's request, not this one
	r.Internal, r.For = true, infer.SpansOf(req.Caller.For)
	r.Inputs = append([]tensor.Tensor(nil), req.Inputs...)
	for i := range r.Inputs {
		r.Inputs[i].Retain()
	}
	r.Times.Receive = backend.Now()
	r.Times.Start = r.Times.Receive
	r.Trace = ""
	if p, ok := req.Responder.(backend.Pinner); ok {
		p.Pinned(version)
	}
	r.Timeline = h.e.called(req.Trace)
	if err := h.e.Infer(r); err != nil {
		leave()
		return err
	}
	return nil
}

// needs returns a model and, for an ensemble, those of its steps. On a loop they
// are no longer sent requests ahead: one that waits for an instance which waits
// for it could not go to another one.
func (e *Engine) needs(m *model.Model, loop bool) []deadlock.Node {
	if loop {
		m.OneAtATime()
	}
	all := []deadlock.Node{{Model: m.Config().Name, Version: m.Version()}}
	if m.Config().Ensemble == nil {
		return all
	}
	for _, s := range m.Config().Ensemble.Steps {
		if part := e.life.Find(s.Model, s.Version); part != nil {
			all = append(all, e.needs(part, loop)...)
		}
	}
	return all
}

// size returns what tells how many instances the caller has: they come and go.
func (e *Engine) size(c backend.Caller) func() int {
	return func() int {
		if m := e.life.Find(c.Model, c.Version); m != nil {
			return m.Instances()
		}
		return c.Of
	}
}

// claims returns what tells, from then on, the shares of resources that a
// caller holds and those that models need; nil without a rate limiter.
func (e *Engine) claims(c backend.Caller, callees []deadlock.Node) func() (holds, needs []ratelimit.Claim) {
	if e.o.RateLimiter == nil {
		return nil
	}
	var groups []*ratelimit.Group
	for _, n := range callees {
		if m := e.life.Find(n.Model, n.Version); m != nil && m.Limits() != nil {
			groups = append(groups, m.Limits())
		}
	}
	if groups == nil {
		return nil
	}
	var own *ratelimit.Group
	at := -1
	if m := e.life.Find(c.Model, c.Version); m != nil {
		own, at = m.Limits(), m.InstanceNumber(c.Instance)
	}
	return func() (holds, needs []ratelimit.Claim) {
		for _, g := range groups {
			needs = append(needs, g.Least()...)
		}
		return own.Held(at), needs
	}
}

// forward is the sink of a request that a model has sent.
type forward struct{ to backend.Responder }

func (f forward) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	_ = f.to.Respond(resp, final) // a caller that is gone has said so through its context
}

func (h *host) Load(ctx context.Context, model, config string, files map[string][]byte) error {
	if err := h.e.refuseModels(model); err != nil {
		return err
	}
	return h.e.load(ctx, lifecycle.Request{Name: model, Config: config, Files: files, Nested: true})
}

// Unload does not wait for loads: one of them may be that of the model that asks.
func (h *host) Unload(_ context.Context, model string, dependents bool) error {
	if err := h.e.refuseModels(model); err != nil {
		return err
	}
	if err := h.e.controllable(); err != nil {
		return err
	}
	if h.e.demand != nil {
		return h.e.demand.Unload(model, func() error { return h.e.life.Unload(model, dependents) })
	}
	return h.e.life.Unload(model, dependents)
}

// Ready looks at the model alone: while the server stops, models that still
// work may call others that still serve.
func (h *host) Ready(model string, version int64) bool {
	name, number, err := h.e.Numbered(model, version)
	return err == nil && h.e.modelReady(name, number) == nil
}

func (h *host) Activity(trace, name string, at int64) {
	if h.e.o.Followers != nil && strings.HasPrefix(trace, FollowerMark) {
		h.e.o.Followers.Note(trace, name, at)
		return
	}
	h.e.o.Tracer.Note(trace, name, at)
}

// Document answers what it can itself, and has the owner of the engine write the rest.
func (h *host) Document(q backend.Question) ([]byte, error) {
	switch q.About {
	case backend.AboutLive:
		return nil, h.e.Live()
	case backend.AboutReady:
		return nil, h.e.Ready()
	case backend.AboutLabels:
		name, number, err := h.e.Numbered(q.Model, q.Version)
		if err != nil {
			return nil, err
		}
		return json.Marshal(h.e.Labels(name, number, q.Output))
	case backend.AboutService:
		name, ask := h.e.Inside(q.Model, q.Version)
		m := h.e.life.PinInside("", name, &ask)
		if m == nil { // a request may have it loaded
			var err error
			if m, err = h.e.bringFor(context.Background(), "", name, &ask); err != nil {
				return nil, err
			}
		}
		defer m.Unpin()
		return json.Marshal(map[string]any{"model": m.Config().Name, "decoupled": m.Config().Decoupled, "version": m.Version()})
	default:
		if h.e.o.Documents == nil {
			return nil, backend.Errorf(backend.Unsupported, "the server has no documents")
		}
		return h.e.o.Documents(q)
	}
}

func (h *host) MetricFamily(family backend.MetricFamily) (release func(), err error) {
	return h.e.o.Customs.Register(family)
}

func (h *host) Metric(family backend.MetricFamily, labels map[string]string) (backend.Metric, error) {
	return h.e.o.Customs.Metric(family, labels)
}
