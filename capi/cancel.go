package capi

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// cancelled is the context of a request, cheaper to make than one of package
// context: most are never asked when they end.
type cancelled struct {
	of    *flights
	over  atomic.Bool
	mu    sync.Mutex
	done  chan struct{}
	after map[*func()]struct{}

	watched atomic.Bool
}

func (*cancelled) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (*cancelled) Value(any) any                           { return nil }

func (c *cancelled) Done() <-chan struct{} {
	c.of.watch(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.over.Load() {
			close(c.done)
		}
	}
	return c.done
}

func (c *cancelled) Err() error {
	if c.over.Load() || c.of.over.Load() {
		return context.Canceled
	}
	return nil
}

// AfterFunc is what package context asks for in place of a goroutine that waits.
func (c *cancelled) AfterFunc(f func()) (stop func() bool) {
	c.of.watch(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() {
		go f()
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = map[*func()]struct{}{}
	}
	key := &f
	c.after[key] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.after[key]
		delete(c.after, key)
		return waits
	}
}

// cancel ends the context. It may be called again.
func (c *cancelled) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Swap(true) {
		return
	}
	if c.done != nil {
		close(c.done)
	}
	for f := range c.after {
		go (*f)()
	}
	c.after = nil
}

// flights are the requests of a server that something waits for, or may: those end
// when the server does not wait for them any more.
type flights struct {
	over  atomic.Bool
	mu    sync.Mutex
	waits map[*cancelled]struct{}
}

// watch takes a request, once.
func (f *flights) watch(c *cancelled) {
	f.mu.Lock()
	if f.waits == nil {
		f.waits = map[*cancelled]struct{}{}
	}
	f.waits[c] = struct{}{}
	c.watched.Store(true)
	f.mu.Unlock()
	if f.over.Load() {
		c.cancel()
	}
}

// forget lets go of a request that has ended.
func (f *flights) forget(c *cancelled) {
	if !c.watched.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waits, c)
}

// cancel ends all requests, those to come too, and returns how many there were.
func (f *flights) cancel() int {
	f.over.Store(true)
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.waits))
	f.mu.Unlock()
	for _, c := range all {
		c.cancel()
	}
	return len(all)
}
