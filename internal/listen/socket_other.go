//go:build !linux

package listen

import (
	"net"
	"syscall"
)

// boundSilence leaves the platform's own limit.
func boundSilence(syscall.RawConn) error { return nil }

// Waiting says nothing: only Linux counts what waits in a listener.
func Waiting(net.Listener) (n int, ok bool) { return 0, false }
