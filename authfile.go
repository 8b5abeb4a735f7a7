package neso

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/nesoserve/neso/internal/auth"
)

// maxAuthFile bounds the file of keys, in bytes.
const maxAuthFile = 16 << 20

// authFile is the file of keys as last read. The guard calls refresh, one call
// at a time.
type authFile struct {
	path   string
	log    *slog.Logger
	guard  *auth.Guard
	stamps []stamp
	failed string // what was said about the present state of the file
}

// openGuard reads the file of keys; nil without one.
func (s *Server) openGuard(log *slog.Logger) (*auth.Guard, error) {
	if s.AuthFile == "" {
		return nil, nil
	}
	f := &authFile{path: s.AuthFile, log: log}
	var err error
	if f.stamps, err = stampsOf([]string{f.path}); err != nil {
		return nil, fmt.Errorf("auth file: %w", err)
	}
	keys, err := f.read()
	if err != nil {
		return nil, err
	}
	f.guard = auth.NewGuard(keys, f.refresh)
	log.Info("clients need a key", "file", f.path, "keys", len(keys.List))
	for _, l := range []struct {
		name, address string
		plain         bool
	}{{"HTTP", s.HTTP.Address, s.HTTP.TLS == nil}, {"gRPC", s.GRPC.Address, s.GRPC.TLS == nil}} {
		if l.plain && l.address != "" && !isLocal(l.address) {
			log.Warn("keys travel unencrypted: the listener has no TLS", "listener", l.name, "address", l.address)
		}
	}
	return f.guard, nil
}

func (f *authFile) read() (*auth.Keys, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("auth file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAuthFile+1))
	if err != nil {
		return nil, fmt.Errorf("auth file: %w", err)
	}
	if len(text) > maxAuthFile {
		return nil, fmt.Errorf("auth file %s: it has more than %d bytes", f.path, maxAuthFile)
	}
	keys, err := auth.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("auth file %s: %w", f.path, err)
	}
	return keys, nil
}

// refresh reads the file again if it has changed. What cannot be used is said
// once, and the old keys stay.
func (f *authFile) refresh() {
	stamps, err := stampsOf([]string{f.path})
	if err == nil {
		if equalStamps(stamps, f.stamps) && f.failed == "" {
			return
		}
		var keys *auth.Keys
		if keys, err = f.read(); err == nil {
			f.stamps, f.failed = stamps, ""
			f.guard.Replace(keys)
			f.log.Info("new keys", "file", f.path, "keys", len(keys.List))
			return
		}
	}
	if text := err.Error(); text != f.failed {
		f.failed = text
		f.log.Warn("the changed auth file cannot be used, the old keys stay", "error", text)
	}
}

// isLocal reports whether only this machine can reach an address.
func isLocal(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// openAdmin opens the listener of administrators, if there is one.
func (s *Server) openAdmin(ctx context.Context, r *running) error {
	if s.AdminAddress == "" {
		return nil
	}
	l, err := listen(ctx, s.AdminAddress, false)
	if err != nil {
		return fmt.Errorf("admin address: %w", err)
	}
	if l, err = secure(l, s.HTTP.TLS, r.log); err != nil {
		return err
	}
	r.admin = r.api.HTTPServer()
	r.admin.Handler = r.api.Admin()
	r.quiet.watch(r.admin)
	r.serve("Admin Service", l, r.admin.Serve)
	return nil
}
