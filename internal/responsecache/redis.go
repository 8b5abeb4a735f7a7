//go:build !edge

package responsecache

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/nesoserve/neso/backend"
)

// remote keeps entries in Redis. A look-up is one GETRANGE on the request's
// goroutine, bounded by the time-outs of the settings. Insertions are handed to
// one goroutine (redis_write.go), so no answer waits for Redis. While Redis does
// not answer, nobody asks it (circuit.go).
type remote struct {
	outside
	client *redis.Client
	ttl    time.Duration
}

// openRedis connects. A Redis that cannot be reached is no reason not to serve:
// its answers are missing until it is there. One that refuses us is, since that
// does not mend itself.
func openRedis(ctx context.Context, o Options) (Store, error) {
	c, err := parseRedis(o.Settings, o.Words.Name("cache-config"), os.Getenv)
	if err != nil {
		return nil, err
	}
	unknown(o, redisSettings)
	r := &remote{client: redis.NewClient(&c.Options), ttl: c.ttl}
	r.outside = outside{o: o, end: r.client.Close}
	r.circuit.init(o.Logger, c.Addr, r.probe)
	r.writer.init(r.write)
	first, cancel := context.WithTimeout(ctx, 2*(c.DialTimeout+c.ReadTimeout))
	defer cancel()
	if err := r.probe(first); err != nil {
		var refusal redis.Error
		if errors.As(err, &refusal) && !strings.HasPrefix(refusal.Error(), "LOADING") {
			return nil, errors.Join(backend.Errorf(backend.Internal, "Failed to initialize RedisCache: %s: %v", c.Addr, err), r.Close())
		}
		r.circuit.open(err)
	}
	return r, nil
}

// SilenceDriver keeps the Redis driver from printing each failed connection on
// the standard error output: we log the first. The setting is the process's, so
// it is for commands, not for a program that uses the server as a library.
func SilenceDriver() { redis.SetLogger(quiet{}) }

type quiet struct{}

// Printf implements the driver's logger.
func (quiet) Printf(context.Context, string, ...any) {}

// probe asks for something that is not there, as a look-up does.
func (r *remote) probe(ctx context.Context) error {
	return r.client.GetRange(ctx, prefix+"probe", 0, 0).Err()
}

func (r *remote) Lookup(ctx context.Context, k Key) *Entry {
	e, ask := r.begin(k)
	if !ask {
		return e
	}
	// The time-outs bound it, not the client: what the client's deadline cuts off
	// looks like a failure of Redis. A byte more than there may be tells what is
	// too long.
	b, err := r.client.GetRange(context.WithoutCancel(ctx), prefix+k.String(), 0, MaxValue).Bytes()
	switch {
	case errors.Is(err, redis.ErrPoolTimeout): // too many at once, which says nothing of Redis
		r.circuit.failures.Add(1)
		return nil
	case err != nil && !errors.Is(err, redis.Nil):
		r.circuit.open(err)
		return nil
	case len(b) == 0:
		return nil
	}
	return r.found(b, k)
}
