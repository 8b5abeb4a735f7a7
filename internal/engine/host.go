package engine

import (
	"context"
	"log/slog"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/lifecycle"
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
	var bytes int64
	for i := range req.Inputs {
		bytes += int64(len(req.Inputs[i].Data))
	}
	p, err := h.e.pin(req.ModelName, req.ModelVersion, bytes)
	if err != nil {
		return err
	}
	r := p.NewRequest(forward{req.Responder})
	responder, name, version := r.Responder, r.ModelName, r.ModelVersion
	r.Request = *req
	r.Responder, r.ModelName, r.ModelVersion = responder, name, version
	r.Internal = true
	r.Inputs = append([]tensor.Tensor(nil), req.Inputs...)
	for i := range r.Inputs {
		r.Inputs[i].Retain()
	}
	r.Times.Receive = backend.Now()
	r.Times.Start = r.Times.Receive
	return h.e.Infer(r)
}

// forward is the sink of a request that a model has sent.
type forward struct{ to backend.Responder }

func (f forward) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	_ = f.to.Respond(resp, final) // a caller that is gone has said so through its context
}

func (h *host) Load(ctx context.Context, model, config string, files map[string][]byte) error {
	return h.e.load(ctx, lifecycle.Request{Name: model, Config: config, Files: files, Nested: true})
}

func (h *host) Unload(ctx context.Context, model string, dependents bool) error {
	return h.e.Unload(ctx, model, dependents)
}

// Ready looks at the model alone: while the server stops, models that still
// work may call others that still serve.
func (h *host) Ready(model string, version int64) bool {
	return h.e.modelReady(model, version) == nil
}

func (h *host) Metric(family backend.MetricFamily, labels map[string]string) (backend.Metric, error) {
	return h.e.custom.metric(family, labels)
}
