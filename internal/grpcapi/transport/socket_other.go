//go:build !linux

package transport

import "net"

// socket is for Linux.
type socket struct{ net.Conn }

func (*socket) hasMore() bool { return false }

// newSocket returns nc itself.
func newSocket(nc net.Conn) net.Conn { return nc }
