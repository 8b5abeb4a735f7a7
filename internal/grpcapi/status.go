package grpcapi

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/grpcapi/transport"
	"github.com/nesoserve/neso/internal/kserve"
)

const (
	// textShutdown answers what arrives after the server began to stop.
	textShutdown = "GRPC server is shutting down and has stopped accepting new requests."
	// textDecoupled refuses models that may give any number of responses.
	textDecoupled = "ModelInfer RPC doesn't support models with decoupled transaction policy"
	// pushback is the trailer that tells gRPC clients when to try again.
	pushback = "grpc-retry-pushback-ms"
)

// statusOf turns an error of the core into a gRPC status, with the core's text
// as it is. When to try again is said as google.rpc.RetryInfo, in the details.
func statusOf(err *backend.Error) error {
	s := status.New(codes.Code(kserve.GRPCCode(err.Code)), err.Message)
	if err.RetryAfter > 0 {
		if detailed, bad := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(err.RetryAfter)}); bad == nil {
			s = detailed
		}
	}
	return s.Err()
}

// failure is statusOf for any error; it returns nil for nil.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return statusOf(backend.AsError(err))
}

// fail is statusOf for a call with trailers of its own, by which gRPC's clients
// learn when to try again.
func fail(stream grpc.ServerStream, err *backend.Error) error {
	if err.RetryAfter > 0 {
		stream.SetTrailer(metadata.Pairs(pushback, strconv.FormatInt(err.RetryAfter.Milliseconds(), 10)))
	}
	if err.Code == backend.Cancelled && errors.Is(stream.Context().Err(), context.DeadlineExceeded) {
		// The server's clock may run out before the client's: both say the same.
		return transport.Ended(context.DeadlineExceeded).Err()
	}
	return statusOf(err)
}

func unsupported(text string) error { return status.Error(codes.Unimplemented, text) }

func invalidArgument(text string) error { return status.Error(codes.InvalidArgument, text) }

func errShutdown() *backend.Error {
	return &backend.Error{Code: backend.Unavailable, Message: textShutdown}
}
