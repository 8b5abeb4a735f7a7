package kserve

import (
	"context"
	"log/slog"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/logging"
)

// LogAccess prints the access line of one inference: what was asked, what the
// front end says of the answer and the client, and how long each phase took.
func LogAccess(ctx context.Context, log *slog.Logger, r *infer.Request, answer ...slog.Attr) {
	t := &r.Times
	since := func(from, to int64) time.Duration { return time.Duration(max(0, to-from)) }
	var queue, input, compute, output int64
	if t.ComputeStart != 0 {
		queue, input, compute, output = t.Phases()
	}
	if r.Cache.Hit {
		answer = append(answer, slog.String("cache", "hit"))
	}
	if r.Route != nil {
		answer = append(answer, slog.String("version_reason", r.Route.Reason.String()))
	}
	if r.Payer != nil {
		answer = append(answer, slog.String("key", r.Payer.Name()))
	}
	attrs := append([]slog.Attr{
		slog.String("model", r.ModelName), slog.Int64("version", r.ModelVersion), slog.String("request_id", r.ID),
	}, answer...)
	log.LogAttrs(ctx, logging.Verbose(1), "infer", append(attrs,
		slog.Duration("receive", since(t.Receive, t.Start)), slog.Duration("queue", time.Duration(queue)),
		slog.Duration("input", time.Duration(input)), slog.Duration("infer", time.Duration(compute)),
		slog.Duration("output", time.Duration(output)), slog.Duration("total", since(t.Receive, backend.Now())))...)
}
