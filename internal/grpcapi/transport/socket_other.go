//go:build !linux || race

package transport

import "net"

// socket is for Linux, without the race detector.
type socket struct{ net.Conn }

func (*socket) hasMore() bool { return false }

// newSocket returns nc itself.
func newSocket(nc net.Conn) net.Conn { return nc }
