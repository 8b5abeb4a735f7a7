//go:build !unix

package listen

import (
	"errors"
	"syscall"
)

// reusePort fails: the platform cannot share a port between processes safely.
func reusePort(_, _ string, _ syscall.RawConn) error {
	return errors.New("this platform cannot share a port between processes")
}
