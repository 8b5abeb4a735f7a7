package kserve

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/setting"
)

// HTTPStatus returns the HTTP status of an error code.
func HTTPStatus(c backend.Code) int {
	switch c {
	case backend.Internal:
		return 500
	case backend.NotFound:
		return 404
	case backend.Unavailable:
		return 503
	case backend.Unsupported:
		return 501
	case backend.Unauthenticated:
		return 401
	case backend.PermissionDenied:
		return 403
	case backend.ResourceExhausted:
		return 429
	default:
		return 400
	}
}

// GRPCCode returns the number of the gRPC status code of an error code.
func GRPCCode(c backend.Code) uint32 {
	switch c {
	case backend.Cancelled:
		return 1
	case backend.InvalidArg:
		return 3
	case backend.NotFound:
		return 5
	case backend.AlreadyExists:
		return 6
	case backend.PermissionDenied:
		return 7
	case backend.ResourceExhausted:
		return 8
	case backend.Unsupported:
		return 12
	case backend.Internal:
		return 13
	case backend.Unavailable:
		return 14
	case backend.Unauthenticated:
		return 16
	default:
		return 2
	}
}

// Invalid is a fault in what the client sent.
func Invalid(text string) *backend.Error {
	return &backend.Error{Code: backend.InvalidArg, Message: text}
}

// RequestPrefix is how the core begins its errors about a request.
func RequestPrefix(id string) string {
	if id == "" {
		return "[request id: <id_unknown>] "
	}
	return "[request id: " + id + "] "
}

// TextManagedElsewhere is what front ends say where the server is managed elsewhere.
func TextManagedElsewhere(words setting.Words) string {
	return "this server is managed at the address of " + words.Name("admin-address") + ", not here"
}

// TextOnlyManaged is what that other place says to inference.
func TextOnlyManaged(words setting.Words) string {
	return "inference is not served at " + words.Name("admin-address")
}
