//go:build !edge

package responsecache

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// write sends a batch in one trip.
func (r *remote) write(batch []write) {
	if !r.circuit.closed() {
		r.writer.dropped.Add(uint64(len(batch)))
		return
	}
	p := r.client.Pipeline()
	for _, x := range batch {
		p.Set(r.writer.life, prefix+x.key.String(), encode(make([]byte, 0, x.size), x.key, r.writer.entry(x)), r.ttl)
	}
	_, err := p.Exec(r.writer.life)
	var refusal redis.Error
	switch {
	case err == nil:
		r.refusing = false
	case r.writer.life.Err() != nil:
	case errors.As(err, &refusal):
		r.writer.dropped.Add(uint64(len(batch)))
		if !r.refusing {
			r.refusing = true
			r.o.Logger.Warn("the response cache refuses to store responses", "address", r.circuit.address, "error", err)
		}
	default:
		r.writer.dropped.Add(uint64(len(batch)))
		r.circuit.open(err)
	}
}
