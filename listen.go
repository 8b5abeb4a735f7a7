package neso

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/nesoserve/neso/backend"
)

// listen opens the listener of one front end. A taken port is Unavailable with
// the peer's text.
func listen(ctx context.Context, address string, reuse bool) (net.Listener, error) {
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
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, backend.Errorf(backend.Unavailable, "Socket '%s' already in use ", address)
	}
	if err != nil {
		return nil, backend.Errorf(backend.Unavailable, "cannot listen on '%s': %v", address, err)
	}
	return l, nil
}

// secure puts TLS over a listener of HTTP/1.1, if there is any; it closes l when
// that fails.
func secure(l net.Listener, t *TLS, log *slog.Logger) (net.Listener, error) {
	config, err := serverTLS(t, log, "http/1.1")
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if config == nil {
		return l, nil
	}
	return tls.NewListener(l, config), nil
}

// listenUnix takes the place of a socket file that nobody listens on any more,
// as a killed server leaves it.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
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
