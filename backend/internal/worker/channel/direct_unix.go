//go:build unix && !linux

package channel

import (
	"errors"
	"os"
	"syscall"
)

// Unpolled has nothing to change where the poller is to wait.
func Unpolled(f *os.File) (*os.File, error) { return f, nil }

// TryWrite writes what a socket takes without waiting.
func TryWrite(fd uintptr, buf []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), buf)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, nil
		default:
			return 0, err
		}
	}
}
