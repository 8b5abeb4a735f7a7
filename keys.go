package neso

import (
	"log/slog"

	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/listen"
)

// openGuard reads the file of keys; nil without one.
func (s *Server) openGuard(log *slog.Logger) (*auth.Guard, error) {
	if s.AuthFile == "" {
		return nil, nil
	}
	guard, err := auth.Open(s.AuthFile, log)
	if err != nil {
		return nil, err
	}
	for _, l := range []struct {
		name, address string
		plain         bool
	}{{"HTTP", s.HTTP.Address, s.HTTP.TLS == nil}, {"gRPC", s.GRPC.Address, s.GRPC.TLS == nil}} {
		if l.plain && l.address != "" && !listen.Local(l.address) {
			log.Warn("keys travel unencrypted: the listener has no TLS", "listener", l.name, "address", l.address)
		}
	}
	return guard, nil
}
