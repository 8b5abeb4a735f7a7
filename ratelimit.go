package neso

import (
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ratelimit"
)

// RateLimitResource is how many units there are of a resource that instances
// need to run.
type RateLimitResource struct {
	Name  string
	Count int
	// Device is the number of the one device that has them, or EveryDevice. For a
	// resource that all devices share it is of no importance.
	Device int
}

// EveryDevice says that each device has the resource.
const EveryDevice = ratelimit.EveryDevice

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
		return nil, backend.Errorf(backend.InvalidArg,
			"invalid argument for "+s.words().Name("rate-limit")+": got %q, expected one of off, execution_count", s.RateLimit)
	}
}
