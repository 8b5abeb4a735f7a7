package grpcapi

import (
	"context"
	"log/slog"

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
	status := codes.OK
	if fail != nil {
		status = codes.Code(kserve.GRPCCode(fail.Code))
	}
	client := ""
	if p, ok := peer.FromContext(ctx); ok {
		client = p.Addr.String()
	}
	kserve.LogAccess(ctx, s.o.Logger, r, slog.String("status", status.String()), slog.String("client", client),
		slog.Int("responses", r.Responses()))
}
