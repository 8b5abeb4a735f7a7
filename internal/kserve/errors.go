package kserve

import "github.com/nesoserve/neso/backend"

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
	case backend.Unsupported:
		return 12
	case backend.Internal:
		return 13
	case backend.Unavailable:
		return 14
	default:
		return 2
	}
}

// invalid is a fault in what the client sent.
func invalid(text string) *backend.Error {
	return &backend.Error{Code: backend.InvalidArg, Message: text}
}
