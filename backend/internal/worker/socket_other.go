//go:build !unix

package worker

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

var errPlatform = fmt.Errorf("worker processes are not supported on %s yet: %w", runtime.GOOS, errors.ErrUnsupported)

// tryWrite leaves everything to the flusher.
func tryWrite(uintptr, []byte) (int, error) { return 0, nil }

func sendFiles(*os.File, ...*os.File) error { return errPlatform }

func socketPair(string) (ours, theirs *os.File, err error) { return nil, nil, errPlatform }
