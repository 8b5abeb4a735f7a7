package grpcapi

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/logging"
)

// verbose reports whether inferences are logged.
func (s *Server) verbose(ctx context.Context) bool {
	return s.o.Logger != nil && s.o.Logger.Enabled(ctx, logging.Verbose(1))
}

// access logs one inference, with the error it was answered with.
func (s *Server) access(ctx context.Context, r *infer.Request, fail *backend.Error) {
	t := &r.Times
	status := codes.OK
	if fail != nil {
		status = codes.Code(kserve.GRPCCode(fail.Code))
	}
	client := ""
	if p, ok := peer.FromContext(ctx); ok {
		client = p.Addr.String()
	}
	since := func(from, to int64) time.Duration { return time.Duration(max(0, to-from)) }
	var queue, input, compute, output int64
	if t.ComputeStart != 0 {
		queue, input, compute, output = t.Phases()
	}
	s.o.Logger.LogAttrs(ctx, logging.Verbose(1), "infer",
		slog.String("model", r.ModelName), slog.Int64("version", r.ModelVersion), slog.String("request_id", r.ID),
		slog.String("status", status.String()), slog.String("client", client), slog.Int("responses", r.Responses()),
		slog.Duration("receive", since(t.Receive, t.Start)), slog.Duration("queue", time.Duration(queue)),
		slog.Duration("input", time.Duration(input)), slog.Duration("infer", time.Duration(compute)), slog.Duration("output", time.Duration(output)), slog.Duration("total", since(t.Receive, backend.Now())))
}
