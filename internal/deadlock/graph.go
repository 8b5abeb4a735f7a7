package deadlock

import (
	"slices"

	"github.com/nesoserve/neso/internal/ratelimit"
)

// Node is one version of a model.
type Node struct {
	Model   string
	Version int64
}

// edge is a call that an instance of a model waits for.
type edge struct {
	id       uint64
	caller   Node
	instance string // of the caller
	of       int    // how many instances the caller has
	callees  []Node // what is needed to answer the call
	// Under a rate limiter: what the instance holds while it waits, and what its
	// callees need before they can run.
	holds, needs []ratelimit.Claim
}

// waiter is an instance that waits.
type waiter struct {
	of       Node
	instance string
}

// circle returns a number that names the state of the circle of waiting calls
// of which e is the newest one, or 0 if it is not. In a circle, every instance of
// every model waits for a call to a model of the circle, or for a resource of
// which those that wait hold too much: then no instance is left to execute any
// of them. To end the newest call lets all others go on.
func circle(edges []edge, e edge) uint64 {
	c := newStuck(edges)
	for again := true; again; {
		again = false
		for w, calls := range c.calls {
			if c.waits[w] && !slices.ContainsFunc(calls, c.into) {
				c.resume(w)
				again = true
			}
		}
	}
	if !c.keeps(e) || !c.into(e) {
		return 0
	}
	state := uint64(1)
	for _, x := range edges {
		if c.keeps(x) {
			if x.id > e.id && c.into(x) {
				return 0
			}
			state += x.id * 0x9E3779B97F4A7C15 // a sum, since edges come in any order
		}
	}
	return max(state, 1)
}

// stuck is what may not move any more: at first all that waits, and less and
// less of it as calls are found that something still works for.
type stuck struct {
	calls map[waiter][]edge
	waits map[waiter]bool
	busy  map[Node]int // how many instances of a model wait
	of    map[Node]int
	held  map[ratelimit.Resource]int64
}

func newStuck(edges []edge) *stuck {
	c := &stuck{
		calls: map[waiter][]edge{}, waits: map[waiter]bool{}, busy: map[Node]int{}, of: map[Node]int{},
		held: map[ratelimit.Resource]int64{},
	}
	for _, x := range edges {
		w := waiter{x.caller, x.instance}
		c.calls[w] = append(c.calls[w], x)
		c.of[x.caller] = x.of
		if c.waits[w] {
			continue
		}
		c.waits[w] = true
		c.busy[x.caller]++
		for _, h := range x.holds {
			c.held[h.Resource] += h.Units
		}
	}
	return c
}

// resume takes out an instance that will go on.
func (c *stuck) resume(w waiter) {
	c.waits[w] = false
	c.busy[w.of]--
	for _, h := range c.calls[w][0].holds {
		c.held[h.Resource] -= h.Units
	}
}

// full reports whether no instance of a model is left.
func (c *stuck) full(n Node) bool { return c.of[n] > 0 && c.busy[n] >= c.of[n] }

// short returns the resource of which a call needs more than there will be.
func (c *stuck) short(x edge) (name string, short bool) {
	for _, n := range x.needs {
		if n.Of-c.held[n.Resource] < n.Units {
			return n.Resource.Name, true
		}
	}
	return "", false
}

// into reports whether what a call waits for does not move.
func (c *stuck) into(x edge) bool {
	if slices.ContainsFunc(x.callees, c.full) {
		return true
	}
	_, short := c.short(x)
	return short
}

// keeps reports whether others may wait for the end of a call: for the instance
// that makes it, or for what that one holds.
func (c *stuck) keeps(x edge) bool {
	return c.full(x.caller) || len(x.holds) > 0 && c.waits[waiter{x.caller, x.instance}]
}
