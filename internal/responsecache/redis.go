package responsecache

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/nesoserve/neso/backend"
)

// remote keeps entries in Redis. A look-up is one GETRANGE on the request's
// goroutine, bounded by the time-outs of the settings. Insertions are handed to
// one goroutine (redis_write.go), so no answer waits for Redis. While Redis does
// not answer, nobody asks it (circuit.go).
type remote struct {
	o       Options
	client  *redis.Client
	ttl     time.Duration
	circuit circuit
	writer  writer

	lookups, hits, bad atomic.Uint64
	// complained says that a bad entry has been logged: the next ones are counted.
	complained atomic.Bool

	closing  sync.Once
	closeErr error
}

// prefix stands before the keys in Redis, with the version of their format.
const prefix = "neso:1:"

// openRedis connects. A Redis that cannot be reached is no reason not to serve:
// its answers are missing until it is there. One that refuses us is, since that
// does not mend itself.
func openRedis(ctx context.Context, o Options) (Store, error) {
	c, err := parseRedis(o.Settings, os.Getenv)
	if err != nil {
		return nil, err
	}
	unknown(o, redisSettings)
	r := &remote{o: o, client: redis.NewClient(&c.Options), ttl: c.ttl}
	r.circuit.init(o.Logger, c.Addr, r.probe)
	r.writer.init(r)
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
	r.lookups.Add(1)
	if e := r.writer.pending(k); e != nil {
		r.hits.Add(1)
		return e
	}
	if !r.circuit.closed() {
		return nil
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
	e, err := decode(b, k, r.o.Allocator)
	if err != nil {
		r.Discredit(k, err)
		return nil
	}
	r.hits.Add(1)
	return e
}

// Discredit counts an entry that no server of ours has stored, and logs the
// first one.
func (r *remote) Discredit(k Key, err error) {
	r.bad.Add(1)
	if !r.complained.Swap(true) {
		r.o.Logger.Warn("the response cache holds a value that is no response; it is ignored, as are further ones", "key", prefix+k.String(),
			"error", err)
	}
}

func (r *remote) Insert(k Key, e *Entry) (Outcome, error) {
	size, ok := encodedSize(e)
	if !ok {
		e.Release()
		return Refused, tooLarge(MaxValue+1, MaxValue)
	}
	if !r.circuit.closed() {
		e.Release()
		return Refused, nil // logged when it opened
	}
	return r.writer.add(k, e, size), nil
}

func (r *remote) Shared() bool { return true }

func (r *remote) Largest() int64 { return MaxValue }

func (r *remote) Numbers() Numbers {
	hits, lookups := r.hits.Load(), r.lookups.Load()
	return Numbers{
		Lookups: lookups, Hits: min(hits, lookups), Misses: lookups - min(hits, lookups), Up: r.circuit.closed(),
		Failures: r.circuit.failures.Load(), Reconnection: r.circuit.returns.Load(), Dropped: r.writer.dropped.Load(), BadEntries: r.bad.Load(),
	}
}

// Close stops what runs. Entries that have not been written are dropped.
func (r *remote) Close() error {
	r.closing.Do(func() {
		r.writer.close()
		r.circuit.close()
		r.closeErr = r.client.Close()
	})
	return r.closeErr
}
