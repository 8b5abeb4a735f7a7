package grpcapi

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/setting"
)

// reserved are the names that a forwarded header must not have: they mean
// something as request parameters.
var reserved = []string{"sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"}

// forward makes request parameters of the client's metadata.
type forward struct{ pattern *regexp.Regexp }

// newForward returns nil for the empty pattern. The error is in these words.
func newForward(pattern string, words setting.Words) (*forward, error) {
	if pattern == "" {
		return nil, nil
	}
	re, err := regexp.Compile("(?i)" + pattern)
	if err != nil {
		return nil, backend.Errorf(backend.InvalidArg, "invalid %s: %v", words.Name("grpc-header-forward-pattern"), err)
	}
	return &forward{pattern: re}, nil
}

// apply adds the matching metadata of the call to r, in the order of the names.
func (f *forward) apply(ctx context.Context, r *infer.Request) *backend.Error {
	keyed := callerOf(ctx) != nil
	md, ok := metadata.FromIncomingContext(ctx)
	if !ok {
		return nil
	}
	var names []string
	for name := range md {
		if keyed && (name == keyAuthorization || name == keyAPIKey) {
			continue // a key is for the server, not for models
		}
		// Pseudo headers are the transport's, not the client's.
		if !strings.HasPrefix(name, ":") && f.pattern.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(reserved, name) || strings.HasPrefix(name, "triton_") {
			return backend.Errorf(backend.InvalidArg, "Header '%s' is reserved for Triton usage and cannot be forwarded.", name)
		}
		for _, value := range md[name] {
			r.Parameters = append(r.Parameters, backend.String(name, value))
		}
	}
	return nil
}
