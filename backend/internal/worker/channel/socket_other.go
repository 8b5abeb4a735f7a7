//go:build !unix

package channel

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// ErrPlatform is what everything fails with here.
var ErrPlatform = fmt.Errorf("worker processes are not supported on %s yet: %w", runtime.GOOS, errors.ErrUnsupported)

// TryWrite leaves everything to the flusher.
func TryWrite(uintptr, []byte) (int, error) { return 0, nil }

// Unpolled has nothing to change.
func Unpolled(f *os.File) (*os.File, error) { return f, nil }

// Shutdown has nothing to end.
func Shutdown(syscall.RawConn) {}

// HearNoMore has nothing to end.
func HearNoMore(syscall.RawConn) {}

// SendFiles fails on this platform.
func SendFiles(*os.File, ...*os.File) error { return ErrPlatform }

// NewPair fails on this platform.
func NewPair(string) (ours, theirs *os.File, err error) { return nil, nil, ErrPlatform }

// Blocking does nothing.
func Blocking(*os.File) {}
