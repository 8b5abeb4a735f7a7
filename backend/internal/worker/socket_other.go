//go:build !unix

package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
)

var errPlatform = fmt.Errorf("worker processes are not supported on %s yet: %w", runtime.GOOS, errors.ErrUnsupported)

// tryWrite leaves everything to the flusher.
func tryWrite(uintptr, []byte) (int, error) { return 0, nil }

// writeOnly and directReader have nothing to change.
func writeOnly(f *os.File) (*os.File, error) { return f, nil }

func directReader(f *os.File) (io.Reader, error) { return f, nil }

func shutdown(syscall.RawConn) {}

func sendFiles(*os.File, ...*os.File) error { return errPlatform }

func socketPair(string) (ours, theirs *os.File, err error) { return nil, nil, errPlatform }

func blocking(*os.File) {}
