//go:build !linux || race

package transport

import (
	"net"
	"time"
)

// socket is for Linux, without the race detector.
type socket struct {
	net.Conn
	within time.Duration
}

func (*socket) hasMore() bool { return false }

// newSocket returns nc itself.
func newSocket(nc net.Conn) net.Conn { return nc }
