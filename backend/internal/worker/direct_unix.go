//go:build unix && !linux

package worker

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// tryWrite writes what a socket takes without waiting.
func tryWrite(fd uintptr, buf []byte) (int, error) {
	for {
		n, err := unix.SendmsgN(int(fd), buf, nil, nil, unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		default:
			return 0, err
		}
	}
}

// directReader returns a reader of the socket of f; its deadlines hold there too.
func directReader(f *os.File) (io.Reader, error) { return f, nil }
