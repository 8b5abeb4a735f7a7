//go:build !linux

package neso

import (
	"net"
	"syscall"
)

// boundSilence leaves the platform's own limit.
func boundSilence(syscall.RawConn) error { return nil }

// waiting says nothing: only Linux counts what waits in a listener.
func waiting(net.Listener) (n int, ok bool) { return 0, false }
