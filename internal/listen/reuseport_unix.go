//go:build unix

package listen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort lets several processes share a port.
func reusePort(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); e != nil {
		return e
	}
	return err
}
