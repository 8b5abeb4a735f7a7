package grpcapi

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/nesoserve/neso/internal/auth"
	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/refusals"
)

// Metadata that may hold a key.
const (
	keyAuthorization = "authorization"
	keyAPIKey        = "x-api-key"
)

// operations says what the calls mean for keys. LogSettings, TraceSetting and
// ModelRollout change something when they carry that, see authorize. A call that is not
// here is refused.
var operations = map[string]auth.Operation{
	"Check":                        auth.Probe,
	"Watch":                        auth.Probe,
	"List":                         auth.Probe,
	"ServerLive":                   auth.Probe,
	"ServerReady":                  auth.Probe,
	"ModelReady":                   auth.Inspect,
	"ServerMetadata":               auth.Inspect,
	"ServerReflectionInfo":         auth.Inspect,
	"ModelMetadata":                auth.Inspect,
	"ModelConfig":                  auth.Inspect,
	"ModelInfer":                   auth.Inference,
	"ModelStreamInfer":             auth.Inference,
	"ModelStatistics":              auth.Observe,
	"RepositoryIndex":              auth.Observe,
	"RepositoryModelLoad":          auth.Control,
	"RepositoryModelUnload":        auth.Control,
	"RepositoryBind":               auth.Control,
	rolloutMethod:                  auth.Observe,
	"SystemSharedMemoryStatus":     auth.Observe,
	"SystemSharedMemoryRegister":   auth.Control,
	"SystemSharedMemoryUnregister": auth.Control,
	"CudaSharedMemoryStatus":       auth.Observe,
	"CudaSharedMemoryRegister":     auth.Control,
	"CudaSharedMemoryUnregister":   auth.Control,
	"TraceSetting":                 auth.Observe,
	"LogSettings":                  auth.Observe,
}

// guarded reports whether calls are looked at.
func (s *Server) guarded() bool { return s.o.Guard != nil || s.o.ManagedElsewhere }

type callerKey struct{}

// caller is callerOf without a look where no keys are asked for.
func (s *Server) caller(ctx context.Context) *auth.Caller {
	if s.o.Guard == nil {
		return nil
	}
	return callerOf(ctx)
}

// callerOf returns who makes a call; nil where no keys are asked for.
func callerOf(ctx context.Context) *auth.Caller {
	c, _ := ctx.Value(callerKey{}).(*auth.Caller)
	return c
}

// shareOf returns the share of the ledger that a call's key has.
func shareOf(ctx context.Context) *ledger.Share { return callerOf(ctx).Share() }

// identify finds who makes a call and whether it may, as far as its headers
// tell; the context knows the caller from then on.
func (s *Server) identify(ctx context.Context, name string, call *tap.Info) (context.Context, error) {
	op, ok := operations[name]
	if !ok {
		op = auth.Unsaid // what nobody knows is refused by the transport, behind this
	}
	caller, err := s.o.Guard.Admit(firstOf(call.Header.Get(keyAuthorization)), firstOf(call.Header.Get(keyAPIKey)), op, "")
	switch {
	case err != nil: // who has no key is not told what one could do elsewhere
		auth.Note(s.o.Engine.Refusals(), err, from(ctx, name)...)
		return nil, statusOf(err)
	case s.o.ManagedElsewhere && ok && op.Changes():
		s.o.Engine.Refusals().Refused(refusals.Listener, kserve.TextManagedElsewhere(s.o.Words), from(ctx, name)...)
		return nil, status.Error(codes.PermissionDenied, kserve.TextManagedElsewhere(s.o.Words))
	case s.o.Guard == nil:
		return ctx, nil
	}
	return context.WithValue(ctx, callerKey{}, caller), nil
}

// from says where a call comes from and what it is.
func from(ctx context.Context, name string) []slog.Attr {
	client := ""
	if p, ok := peer.FromContext(ctx); ok {
		client = p.Addr.String()
	}
	return []slog.Attr{slog.String("client", client), slog.String("protocol", "grpc"), slog.String("call", name)}
}

func firstOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// authorize looks at the message of a call: which model it means, and whether
// it changes settings.
func (s *Server) authorize(ctx context.Context, name string, message any) error {
	op, model := operations[name], ""
	switch q := message.(type) {
	case *pb.ModelReadyRequest:
		model = q.Name
	case *pb.ModelMetadataRequest:
		model = q.Name
	case *pb.ModelConfigRequest:
		model = q.Name
	case *pb.ModelStatisticsRequest:
		model = q.Name
	case *pb.RepositoryModelLoadRequest:
		model = q.ModelName
	case *pb.RepositoryModelUnloadRequest:
		model = q.ModelName
	case *pb.LogSettingsRequest:
		if len(q.Settings) > 0 {
			op = auth.Control
		}
	case *pb.TraceSettingRequest:
		model = q.ModelName
		if len(q.Settings) > 0 {
			op = auth.Control
		}
	case *structpb.Struct:
		op, model = rolloutAccess(q)
	default:
		return nil
	}
	if s.o.ManagedElsewhere && op.Changes() {
		s.o.Engine.Refusals().Refused(refusals.Listener, kserve.TextManagedElsewhere(s.o.Words), from(ctx, name)...)
		return status.Error(codes.PermissionDenied, kserve.TextManagedElsewhere(s.o.Words))
	}
	if bad := callerOf(ctx).May(op, model); bad != nil {
		auth.Note(s.o.Engine.Refusals(), bad, from(ctx, name)...)
		return statusOf(bad)
	}
	return nil
}
