package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// Error is an answer other than success.
type Error struct {
	// Status is the HTTP status; over gRPC the one that goes with Code. It is 200 for
	// an error within a stream, in place of a response.
	Status int
	// Message is the server's text.
	Message string
	// Code is the gRPC code; over HTTP the one that goes with Status.
	Code codes.Code
	// RetryAfter is when the server asks to try again, 0 if it does not.
	RetryAfter time.Duration
	// RequestID is that of the request of a stream that has failed, where the server
	// says it.
	RequestID string

	grpc bool
}

func (e *Error) Error() string {
	if e.Status == http.StatusOK {
		return strings.TrimSpace(e.Message) // an error within a stream
	}
	if e.grpc {
		return fmt.Sprintf("%s (gRPC code %s)", strings.TrimSpace(e.Message), e.Code)
	}
	return fmt.Sprintf("%s (HTTP status %d)", strings.TrimSpace(e.Message), e.Status)
}

// Is says that a server whose clock is ahead of the client's means the same as the
// context that has ended.
func (e *Error) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded || target == context.Canceled && e.Code == codes.Canceled
}

// counterparts are the HTTP statuses that go with gRPC codes; of two that go with
// one code the first is meant.
var counterparts = []struct {
	status int
	code   codes.Code
}{
	{http.StatusOK, codes.OK},
	{http.StatusBadRequest, codes.InvalidArgument},
	{http.StatusBadRequest, codes.OutOfRange},
	{http.StatusBadRequest, codes.FailedPrecondition},
	{http.StatusUnauthorized, codes.Unauthenticated},
	{http.StatusForbidden, codes.PermissionDenied},
	{http.StatusNotFound, codes.NotFound},
	{http.StatusConflict, codes.AlreadyExists},
	{http.StatusConflict, codes.Aborted},
	{http.StatusTooManyRequests, codes.ResourceExhausted},
	{http.StatusRequestEntityTooLarge, codes.ResourceExhausted},
	{499, codes.Canceled}, // as proxies say it
	{http.StatusInternalServerError, codes.Internal},
	{http.StatusNotImplemented, codes.Unimplemented},
	{http.StatusBadGateway, codes.Unavailable},
	{http.StatusServiceUnavailable, codes.Unavailable},
	{http.StatusGatewayTimeout, codes.DeadlineExceeded},
}

// codeOf returns the gRPC code of an HTTP status.
func codeOf(status int) codes.Code {
	for _, c := range counterparts {
		if c.status == status {
			return c.code
		}
	}
	return codes.Unknown
}

// statusOf returns the HTTP status of a gRPC code.
func statusOf(code codes.Code) int {
	if code == codes.Unavailable {
		return http.StatusServiceUnavailable
	}
	for _, c := range counterparts {
		if c.code == code {
			return c.status
		}
	}
	return http.StatusInternalServerError
}
