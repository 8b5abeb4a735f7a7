// Package caches runs response caches that are libraries, libtritoncache_<name>.so, as
// they are, each in a neso-host of its own. A library that crashes or hangs ends that
// process, and another one is started: its look-ups are errors meanwhile, which whoever
// asks takes for misses.
//
// It owns the process and its slots (caches.go), and what goes over them (call.go). What
// runs in the process is package backend/native/caches/host.
package caches

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/backend/native"
	"github.com/nesoserve/neso/backend/native/caches/host"
	"github.com/nesoserve/neso/internal/logging"
)

const (
	// slots is how many calls of the library may run at once: a cache holds a lock for
	// as long as it copies a value.
	slots = 4
	// limit is how long one call may take before the process is ended.
	limit = 5 * time.Second
	// openLimit is how long the library may take to begin, endLimit to end.
	openLimit = time.Minute
	endLimit  = 10 * time.Second
)

// cache is one library over all lives of its process.
type cache struct {
	name   string
	plugin *native.Plugin
	worker *supervise.Worker
	arena  *segment.Arena
	idle   chan *slot // those that nobody uses

	life     context.Context // ends with Close
	end      context.CancelFunc
	calls    sync.WaitGroup
	closing  sync.Once
	closeErr error
	mu       sync.Mutex // guards closed, and calls against Close
	closed   bool
}

// slot is an instance of the protocol: it has one call at a time.
type slot struct {
	number uint32
	at     atomic.Pointer[worker.Instance] // in the process that lives, or lived last
}

// Open starts the library with its configuration.
func Open(ctx context.Context, o native.Options, l backend.Library, config []byte) (backend.Cache, error) {
	p, err := o.OpenPlugin("cache", l)
	if err != nil {
		return nil, err
	}
	c := &cache{
		name: l.Name, plugin: p, arena: segment.NewArena(nil, host.InlineLimit, 0), idle: make(chan *slot, slots),
	}
	c.life, c.end = context.WithCancel(context.Background())
	all := make([]*slot, slots)
	for i := range all {
		all[i] = &slot{number: uint32(i + 1)}
		c.idle <- all[i]
	}
	spec := p.Spec()
	spec.LoadLimit, spec.Finalize, spec.Grace, spec.Limit, spec.OutputLimit = openLimit, endLimit, endLimit, limit, 2*host.MaxValue
	open := host.Open{
		Library: p.Path, Name: l.Name, Config: json.RawMessage(config), Preload: p.Server,
		Verbose: p.Log().Enabled(ctx, logging.LevelVerbose),
	}
	c.worker, err = supervise.Start(ctx, spec, nil, func(ctx context.Context, conn *worker.Conn) (*worker.Instance, error) {
		return c.setup(ctx, conn, open, all)
	})
	if err != nil {
		c.arena.Close()
		return nil, errors.Join(native.Plain(err), p.Close())
	}
	return c, nil
}

// setup tells a process of the library and of all slots. The instance that it returns
// stands for the process.
func (c *cache) setup(ctx context.Context, conn *worker.Conn, open host.Open, all []*slot) (*worker.Instance, error) {
	if _, err := conn.Load(ctx, wire.KindLoad, 0, open); err != nil {
		return nil, native.Plain(err)
	}
	for _, l := range all {
		if _, err := conn.Load(ctx, wire.KindInit, l.number, struct{}{}); err != nil {
			return nil, native.Plain(err)
		}
		l.at.Store(conn.Attach(worker.Instance{
			Number: l.number, Name: c.name, Tables: host.Tables, Arena: c.arena, InlineLimit: host.InlineLimit, Limit: limit,
		}))
	}
	return conn.Attach(worker.Instance{Number: 0, Name: c.name}), nil
}

// Close implements backend.Cache: the library finalizes, after the calls that run.
func (c *cache) Close() error {
	c.closing.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.end()
		c.calls.Wait()
		err := c.worker.Close()
		c.arena.Close()
		c.closeErr = errors.Join(err, c.plugin.Close())
	})
	return c.closeErr
}
