//go:build !unix

package bound

import "errors"

// Listener lets processes of the same user join a running server.
type Listener struct{}

var errNoListener = errors.New("binding to a running server is not supported on this system")

// Listen opens the socket.
func Listen(Options) (*Listener, error) { return nil, errNoListener }

// Ticket returns the path of the socket and a token that opens it once.
func (*Listener) Ticket() (socket, token string, err error) { return "", "", errNoListener }

// Close ends all sessions and removes the socket.
func (*Listener) Close() error { return nil }
