// Package ratelimit decides which model instances may run while they share
// counted resources: --rate-limit=execution_count. It is arithmetic under one
// mutex, without clock or goroutine: schedulers ask before they run a batch,
// and are told when it is their turn.
//
// Open limiter.go first; capacity.go says how much there is of each resource,
// turn.go who is next.
package ratelimit

import (
	"sync"
	"sync/atomic"
)

// Limiter is what all models of a server share.
type Limiter struct {
	mu       sync.Mutex
	explicit map[key]int64 // --rate-limit-resource; empty for the most that any instance needs
	pools    map[key]*pool
	waiting  []*instance // by pass; those that hold their resources still are not next
}

// Instance is what the limiter is told of a model instance.
type Instance struct {
	// Device is the GPU it runs on; 0 for others.
	Device int
	// Needs are the resources it holds while it runs. The last of two with one name
	// and scope counts, as in Triton.
	Needs []Need
	// Priority is at least 1: an instance of priority 2 gets half as many turns as
	// one of priority 1 that wants the same.
	Priority int
}

// Need is a number of units of a resource.
type Need struct {
	Name string
	// Global resources are shared by all devices; others exist once per device.
	Global bool
	Count  int
}

// Capacity is how much there is of a resource, on one device or on each.
type Capacity struct {
	Name   string
	Count  int
	Device int // EveryDevice, or its number
}

// EveryDevice says that a capacity holds for each device.
const EveryDevice = -1

// New returns a limiter. Without capacities there is as much of each resource
// as the instance that needs most of it; with any, there is only what they say.
// Of two for the same resource and device the smaller one counts.
func New(capacities []Capacity) *Limiter {
	l := &Limiter{pools: map[key]*pool{}}
	for _, c := range capacities {
		k := key{c.Name, c.Device}
		if l.explicit == nil {
			l.explicit = map[key]int64{}
		}
		if n, ok := l.explicit[k]; !ok || int64(c.Count) < n {
			l.explicit[k] = int64(c.Count)
		}
	}
	return l
}

// Register adds the instances of a model version. It returns an error when one
// needs more than there is. A limiter that is nil has no groups.
func (l *Limiter) Register(all []Instance) (*Group, error) {
	if l == nil {
		return nil, nil
	}
	g := &Group{limiter: l}
	numbered := make(map[int]Instance, len(all))
	for i, in := range all {
		numbered[i] = in
	}
	if err := g.Add(numbered); err != nil {
		return nil, err
	}
	return g, nil
}

// Group are the instances of one model version.
type Group struct {
	limiter   *Limiter
	notify    func()
	instances []*instance // by number; nil where there is none
	needy     atomic.Int32
	closed    bool
}

// Limited reports whether any instance of the group needs something. While none
// does, nobody has to ask. A group that is nil has none.
func (g *Group) Limited() bool { return g != nil && g.needy.Load() > 0 }

// OnTurn sets what is called when instances of the group that waited have been
// given their turn: Ask then says so. It is called before the first Ask.
func (g *Group) OnTurn(notify func()) { g.notify = notify }

// Close takes the instances out; those that still hold resources give them
// back. It may be called more than once.
func (g *Group) Close() {
	if g == nil {
		return
	}
	var others Turns
	l := g.limiter
	l.mu.Lock()
	if !g.closed {
		g.closed = true
		g.removeLocked()
		l.give(&others)
	}
	l.mu.Unlock()
	others.Tell()
}

func (g *Group) removeLocked() {
	for _, in := range g.instances {
		g.limiter.remove(in)
	}
	// Less cannot be needed than before: what is left was within the limits.
	_ = g.limiter.fill()
}

// Turns are groups whose instances were given their turn by a call. Whoever
// made the call tells them when it holds no lock of its own.
type Turns struct{ groups []*Group }

// None reports whether there are none.
func (t *Turns) None() bool { return len(t.groups) == 0 }

// Tell calls what OnTurn has set, of each group once.
func (t *Turns) Tell() {
	for _, g := range t.groups {
		if g.notify != nil {
			g.notify()
		}
	}
	t.groups = nil
}
