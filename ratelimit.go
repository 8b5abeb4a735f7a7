package neso

import (
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ratelimit"
)

// rateLimiter returns what the options ask for; nil when that is nothing.
func (s *Server) rateLimiter() (*ratelimit.Limiter, error) {
	switch strings.ToLower(s.RateLimit) {
	case "", "off":
		return nil, nil
	case "execution_count":
		capacities := make([]ratelimit.Capacity, len(s.RateLimitResources))
		for i, r := range s.RateLimitResources {
			capacities[i] = ratelimit.Capacity(r)
		}
		return ratelimit.New(capacities), nil
	default:
		return nil, backend.Errorf(backend.InvalidArg, "invalid argument for --rate-limit: got %q, expected one of off, execution_count", s.RateLimit)
	}
}
