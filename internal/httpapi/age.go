package httpapi

import (
	"context"
	"math/rand/v2"
	"net"
	"time"
)

// closeConnection asks the client to take a new connection, which a balancer
// may give to another server.
var closeConnection = []string{"close"}

// endKey finds the time.Time from which on a connection is old.
type endKey struct{}

// age returns what gives each connection its time to end, or nil. A tenth more
// or less keeps the clients that a restart has brought at once from coming back
// at once.
func (s *Server) age() func(context.Context, net.Conn) context.Context {
	limit := s.o.MaxConnectionAge
	if limit <= 0 {
		return nil
	}
	return func(ctx context.Context, _ net.Conn) context.Context {
		spread := (rand.Float64() - 0.5) / 5 //nolint:gosec // not a secret
		return context.WithValue(ctx, endKey{}, time.Now().Add(limit+time.Duration(spread*float64(limit))))
	}
}

// aged reports whether the connection of a request has had its time.
func aged(ctx context.Context) bool {
	end, ok := ctx.Value(endKey{}).(time.Time)
	return ok && time.Now().After(end)
}
