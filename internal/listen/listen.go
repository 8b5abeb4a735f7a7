// Package listen opens the listeners of the front ends: TCP ports, shared with
// other processes or not, and Unix sockets, with TLS over them whose files may
// change. Open listen.go first, then tls.go.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/nesoserve/neso/backend"
)

// Open opens the listener of one front end, at "host:port" or "unix:/path"; with
// reuse other processes may listen on the same port. A taken port is Unavailable
// with the peer's text.
func Open(ctx context.Context, address string, reuse bool) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(ctx, strings.TrimPrefix(path, "//"))
	}
	lc := net.ListenConfig{Control: func(network, address string, c syscall.RawConn) error {
		if reuse {
			if err := reusePort(network, address, c); err != nil {
				return err
			}
		}
		return boundSilence(c)
	}}
	l, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, inUse) {
		return nil, backend.Errorf(backend.Unavailable, "Socket '%s' already in use ", address)
	}
	if err != nil {
		return nil, backend.Errorf(backend.Unavailable, "cannot listen on '%s': %v", address, err)
	}
	return l, nil
}

// Local reports whether only this machine can reach an address.
func Local(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// listenUnix takes the place of a socket file that nobody listens on any more,
// as a killed server leaves it.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if errors.Is(err, inUse) {
		if info, statErr := os.Lstat(path); statErr != nil || info.Mode()&os.ModeSocket == 0 {
			return nil, backend.Errorf(backend.Unavailable, "'%s' exists and is not a socket", path)
		}
		var d net.Dialer
		if c, dialErr := d.DialContext(ctx, "unix", path); dialErr == nil {
			_ = c.Close()
			return nil, backend.Errorf(backend.Unavailable, "Socket 'unix:%s' already in use ", path)
		}
		if err = os.Remove(path); err == nil {
			l, err = lc.Listen(ctx, "unix", path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on 'unix:%s': %w", path, err)
	}
	return l, nil
}
