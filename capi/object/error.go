//go:build cgo

package object

// #include <stdint.h>
import "C"

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
)

// failure is a TRITONSERVER_Error.
type failure struct {
	code    backend.Code
	message string
	text    Text
}

var failures = handle.NewTable[failure](handle.Error)

// NewError returns a TRITONSERVER_Error that its receiver owns.
func NewError(code backend.Code, message string) handle.Handle {
	if code > backend.Cancelled {
		code = backend.Unavailable // the interface has no number for it
	}
	return failures.New(&failure{code: code, message: message})
}

// Errorf is NewError with a format.
func Errorf(code backend.Code, format string, args ...any) handle.Handle {
	return NewError(code, backend.Errorf(code, format, args...).Message)
}

// FromError returns a TRITONSERVER_Error for an error of Go, null for nil.
func FromError(err error) handle.Handle {
	if err == nil {
		return 0
	}
	e := backend.AsError(err)
	return NewError(e.Code, e.Message)
}

// AsError returns what a TRITONSERVER_Error says, nil for null. A stale handle is an
// error too. The handle stays the caller's.
func AsError(h handle.Handle) *backend.Error {
	if h == 0 {
		return nil
	}
	f := failures.Get(h)
	if f == nil {
		return backend.Errorf(backend.Internal, "the error has been deleted, or never was one")
	}
	return &backend.Error{Code: f.code, Message: f.message}
}

// TakeError is AsError for an error that is the callee's to delete.
func TakeError(h handle.Handle) *backend.Error {
	err := AsError(h)
	DeleteError(h)
	return err
}

// Taken is TakeError as an error, which is nil where there is none.
func Taken(h handle.Handle) error {
	if err := TakeError(h); err != nil {
		return err
	}
	return nil
}

// Stale is the error for a handle of no object.
func Stale(what string) handle.Handle {
	return Errorf(backend.InvalidArg, "%s has been deleted, or never was one", what)
}

// Null is the error for a pointer that must not be null.
func Null(what string) handle.Handle {
	return Errorf(backend.InvalidArg, "%s must not be null", what)
}

// codeWords are the words of the codes. The two lists of strings stay in C's memory
// as long as the process.
var codeWords, deletedWords = staticTexts(
	"Unknown", "Internal", "Not found", "Invalid argument", "Unavailable", "Unsupported", "Already exists", "<invalid code>",
), NewText("error has been deleted, or never was one")

// staticTexts makes texts that are never freed.
func staticTexts(words ...string) []uintptr {
	texts := make([]uintptr, len(words))
	for i, w := range words {
		texts[i] = NewText(w)
	}
	return texts
}

// pick returns the i-th text, or the last one for an i out of range.
func pick(texts []uintptr, i C.int) C.uintptr_t {
	if i < 0 || int(i) >= len(texts) {
		i = C.int(len(texts) - 1)
	}
	return C.uintptr_t(texts[i])
}

//export TRITONSERVER_ErrorNew
func TRITONSERVER_ErrorNew(code C.int, message C.uintptr_t) C.uintptr_t {
	if code < 0 || code > C.int(backend.Cancelled) {
		code = C.int(backend.Unknown)
	}
	return C.uintptr_t(NewError(backend.Code(code), String(uintptr(message))))
}

//export TRITONSERVER_ErrorDelete
func TRITONSERVER_ErrorDelete(e C.uintptr_t) { DeleteError(handle.Handle(e)) }

// DeleteError ends an error; a handle of none is ignored.
func DeleteError(h handle.Handle) {
	if f := failures.Take(h); f != nil {
		f.text.Free()
	}
}

//export TRITONSERVER_ErrorCode
func TRITONSERVER_ErrorCode(e C.uintptr_t) C.int {
	if f := failures.Get(handle.Handle(e)); f != nil {
		return C.int(f.code)
	}
	return C.int(backend.Unknown)
}

//export TRITONSERVER_ErrorCodeString
func TRITONSERVER_ErrorCodeString(e C.uintptr_t) C.uintptr_t {
	return pick(codeWords, TRITONSERVER_ErrorCode(e))
}

//export TRITONSERVER_ErrorMessage
func TRITONSERVER_ErrorMessage(e C.uintptr_t) C.uintptr_t {
	f := failures.Get(handle.Handle(e))
	if f == nil {
		return C.uintptr_t(deletedWords)
	}
	return C.uintptr_t(f.text.C(f.message))
}
