package grpcapi

import (
	"context"
	"crypto/subtle"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/nesoserve/neso/internal/refusals"
)

// Restriction is a key of metadata and the value it must have.
type Restriction struct{ Key, Value string }

// categories of the calls, with the names of the option
// --grpc-restricted-protocol. Calls that are not here are those of health.
var categories = map[string]string{
	"ServerMetadata":               "metadata",
	"ServerReflectionInfo":         "metadata",
	"ModelMetadata":                "metadata",
	"ModelInfer":                   "inference",
	"ModelStreamInfer":             "inference",
	"ModelConfig":                  "model-config",
	"ModelStatistics":              "statistics",
	"RepositoryIndex":              "model-repository",
	"RepositoryModelLoad":          "model-repository",
	"RepositoryModelUnload":        "model-repository",
	"RepositoryBind":               "model-repository",
	rolloutMethod:                  "model-repository",
	"SystemSharedMemoryStatus":     "shared-memory",
	"SystemSharedMemoryRegister":   "shared-memory",
	"SystemSharedMemoryUnregister": "shared-memory",
	"CudaSharedMemoryStatus":       "shared-memory",
	"CudaSharedMemoryRegister":     "shared-memory",
	"CudaSharedMemoryUnregister":   "shared-memory",
	"TraceSetting":                 "trace",
	"LogSettings":                  "logging",
}

// admit refuses calls before anything of their messages is read: restricted
// ones, and those of callers that may not make them. It is not installed, and
// costs nothing, where nothing is restricted and no key is asked for.
func (s *Server) admit() tap.ServerInHandle {
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		name := call.FullMethodName[strings.LastIndexByte(call.FullMethodName, '/')+1:]
		if err := s.restricted(name, call); err != nil {
			s.o.Engine.Refusals().Refused(refusals.Restricted, status.Convert(err).Message(), from(ctx, name)...)
			return ctx, err
		} else if !s.guarded() {
			return ctx, nil
		}
		return s.identify(ctx, name, call)
	}
}

func (s *Server) restricted(name string, call *tap.Info) error {
	category, ok := categories[name]
	if !ok {
		category = "health"
	}
	must, ok := s.o.Restricted[category]
	if !ok {
		return nil
	}
	given := call.Header.Get(must.Key)
	if len(given) > 0 && subtle.ConstantTimeCompare([]byte(given[0]), []byte(must.Value)) == 1 {
		return nil
	}
	return status.Errorf(codes.Unavailable, "This protocol is restricted, expecting header '%s'", must.Key)
}
