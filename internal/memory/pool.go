package memory

import (
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/invariants"
	"github.com/nesoserve/neso/tensor"
)

// Options bound a Pool; the zero value has defaults.
type Options struct {
	// Limit bounds the bytes of large buffers in use; 0 means no bound.
	Limit int64
	// Cache bounds the bytes of idle large buffers that are kept; 0 means 64 MiB.
	Cache int64
	// Idle is how long an unused large buffer is kept; 0 means 10 s.
	Idle time.Duration
}

// smallest size that goes through the bounded list instead of a sync.Pool.
// Below it a buffer costs little to make again; above it, clearing fresh memory
// and collecting it dominates a request (1 MiB: 60 µs).
const largeFrom = 64<<10 + 1

// Pool is a tensor.Allocator of ordinary memory. Small buffers live in
// per-processor pools that the collector empties; large ones in one bounded
// list that gives back what has been idle.
type Pool struct {
	small [classes]sync.Pool
	large large
	live  live
}

// New returns an empty pool. It starts nothing: a timer runs only while large
// buffers are idle.
func New(o Options) *Pool {
	p := &Pool{}
	p.large.init(o)
	return p
}

// Allocate returns a buffer of size bytes; see tensor.Allocator.
func (p *Pool) Allocate(size int) (*tensor.Buffer, error) {
	if size < 0 || size > 1<<lastShift {
		return nil, backend.Errorf(backend.InvalidArg, "cannot allocate %d bytes", size)
	}
	c := classOf(size)
	var b *tensor.Buffer
	if size < largeFrom {
		b, _ = p.small[c].Get().(*tensor.Buffer)
	} else {
		var err error
		if b, err = p.large.take(c); err != nil {
			return nil, err
		}
	}
	if b == nil {
		b = tensor.NewBuffer(fresh(classSize(c))[:size], p)
	} else {
		full := whole(b)
		if invariants.Enabled {
			checkScribble(full)
		}
		b.Reset(full[:size], tensor.Region{}, p)
	}
	if invariants.Enabled {
		p.live.add(b)
	}
	return b, nil
}

// ReleaseBuffer takes back a buffer whose last reference is gone.
func (p *Pool) ReleaseBuffer(b *tensor.Buffer) {
	full := whole(b)
	if invariants.Enabled {
		p.live.remove(b)
		scribble(full)
	}
	c := classOf(len(full))
	if classSize(c) < largeFrom {
		p.small[c].Put(b)
		return
	}
	p.large.put(c, b)
}

// Usage is how many bytes of large buffers are in use and idle.
type Usage struct{ InUse, Idle int64 }

// Usage returns the present use.
func (p *Pool) Usage() Usage { return p.large.usage() }

// Trim gives all idle large buffers back.
func (p *Pool) Trim() { p.large.trim(0) }

// Close gives back all idle memory and stops the timer. Buffers in use stay
// valid, and buffers may still be allocated, but none is kept any more.
func (p *Pool) Close() { p.large.close() }

// Leaks lists where the buffers that are still in use were allocated. It is
// always empty unless built with invariants.
func (p *Pool) Leaks() []string { return p.live.list() }
