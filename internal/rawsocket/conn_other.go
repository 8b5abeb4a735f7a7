//go:build !linux

package rawsocket

import "net"

// Conn is for Linux: elsewhere system calls are made in other ways, which package
// net knows.
type Conn struct {
	net.Conn
	Full func() error
	Done func()
}

// New returns nil: there is none.
func New(net.Conn) *Conn { return nil }

// HasMore is never called.
func (*Conn) HasMore() bool { return false }

// Exchange is never called.
func (s *Conn) Exchange(out, in []byte, written func()) (int, error) {
	if _, err := s.Write(out); err != nil {
		return 0, err
	}
	written()
	return s.Read(in)
}

// WriteParts is never called.
func (s *Conn) WriteParts(parts net.Buffers) (int, error) {
	n, err := parts.WriteTo(s.Conn)
	return int(n), err
}
