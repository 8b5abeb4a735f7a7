//go:build !unix

package channel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
)

// ErrPlatform is what everything fails with here.
var ErrPlatform = fmt.Errorf("worker processes are not supported on %s yet: %w", runtime.GOOS, errors.ErrUnsupported)

// tryWrite leaves everything to the flusher.
func TryWrite(uintptr, []byte) (int, error) { return 0, nil }

// writeOnly has nothing to change.
func WriteOnly(f *os.File) (*os.File, error) { return f, nil }

// directReader returns f.
func NewReader(f *os.File) (io.Reader, error) { return f, nil }

// shutdown has nothing to end.
func Shutdown(syscall.RawConn) {}

// hearNoMore has nothing to end.
func HearNoMore(syscall.RawConn) {}

// sendFiles fails on this platform.
func SendFiles(*os.File, ...*os.File) error { return ErrPlatform }

// socketPair fails on this platform.
func NewPair(string) (ours, theirs *os.File, err error) { return nil, nil, ErrPlatform }

// blocking does nothing.
func Blocking(*os.File) {}
