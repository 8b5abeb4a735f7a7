package backend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Code classifies an error. The numbers are those of the C API.
type Code uint8

// The protocol's eight codes.
const (
	Unknown Code = iota
	Internal
	NotFound
	InvalidArg
	Unavailable
	Unsupported
	AlreadyExists
	Cancelled
)

// Codes of ours, for who may use the server and how much of it. The C API has
// none for them and says Unavailable.
const (
	Unauthenticated Code = iota + Cancelled + 1
	PermissionDenied
	ResourceExhausted
)

var codeWords = [...]string{
	"Unknown", "Internal", "Not found", "Invalid argument", "Unavailable", "Unsupported", "Already exists", "Cancelled",
	"Unauthenticated", "Permission denied", "Resource exhausted",
}

// String returns the word used in log and error texts, for example "Invalid argument".
func (c Code) String() string {
	if int(c) < len(codeWords) {
		return codeWords[c]
	}
	return codeWords[Unknown]
}

// Error is an error with a code. Front ends turn the code into an HTTP or gRPC
// status and send the message as it is.
type Error struct {
	Code    Code
	Message string
	// RetryAfter, when above zero, tells the client when to try again.
	RetryAfter time.Duration
	// Cause, if there is one, is what errors.Is and errors.As find; clients do not
	// see it.
	Cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the Cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an *Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// AsError returns err as an *Error: itself or the one it wraps (with err's
// whole text), Cancelled for a context error, else Internal. It returns nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // the common case, without reflection
		return e
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Code: e.Code, Message: err.Error(), RetryAfter: e.RetryAfter}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Code: Cancelled, Message: err.Error()}
	}
	return &Error{Code: Internal, Message: err.Error()}
}

// ErrNotBegun is returned by Instance.Execute for a batch that the model has not
// begun and will not: its requests are as they were, and are queued again.
var ErrNotBegun error = &Error{Code: Unavailable, Message: "the instance has not begun the batch"}

// ErrStarted is returned by Instance.Execute for a batch that has been started. The
// backend calls Batch.Ended at its end.
var ErrStarted = errors.New("the batch has been started")

// ErrProcessEnded is the Cause of the error of requests that the process of a model had when it
// ended: nothing is said of the requests by it, and they may be sent again.
var ErrProcessEnded = errors.New("the process of the model has ended")
