package ratelimit

import (
	"math"
	"slices"
)

// loading is how many executions it counts as that an instance was loaded: in
// Triton creation and warm-up go through the same queue.
const loading = 2

// instance is one model instance. It is in one of these states:
//
//	waits  holds  runs
//	-      -      -     idle
//	yes    -      -     in line for its resources
//	-      yes    -     it is its turn, but its scheduler has not yet come for it
//	-      yes    yes   it executes
//	yes    yes    yes   it has executed and wants to again, just before Release
//
// Turns go by pass, the lowest first, and of equals the one that waits longest:
// executions times priority, as in Triton, loading included, but nobody saves up
// turns for later. An instance that comes to a resource starts where the others
// there have come to, without the start that loading gives to those of priority 1;
// else one that was idle, or has just been loaded, would shut out all others until
// it had caught up.
//
// When the first in line does not get what it needs, those behind may go only
// if they leave that much of each of its resources: it goes as soon as what it
// lacks is given back, however small the others' needs are. (In Triton it keeps
// back everyone behind it, whatever they need.)
type instance struct {
	group    *Group
	number   int
	priority int64
	needs    []need

	pass               int64
	waits, holds, runs bool
}

// Ask takes an idle instance's turn to run, and reports whether it has come.
// Otherwise the instance waits, and OnTurn's function is called when to ask
// again. An instance that is about to be released may ask as well; then
// Release answers.
func (g *Group) Ask(i int) bool {
	l := g.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	return !g.closed && l.ask(g.instances[i])
}

// AskAny is Ask for any of the instances that idle says are free, the one with
// the lowest pass first, and all wait when it is nobody's turn. It returns -1
// then.
func (g *Group) AskAny(idle func(i int) bool) int {
	l := g.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.closed {
		return -1
	}
	// One that has been given its turn goes first: it holds what others wait for.
	for i, in := range g.instances {
		if in != nil && in.holds && !in.runs {
			in.runs = true
			return i
		}
	}
	for asked := true; asked; {
		best := (*instance)(nil)
		for i, in := range g.instances {
			if in != nil && !in.waits && idle(i) && (best == nil || in.pass < best.pass) {
				best = in
			}
		}
		if asked = best != nil; asked && l.ask(best) {
			return best.number
		}
	}
	return -1
}

func (l *Limiter) ask(in *instance) bool {
	switch {
	case in.waits:
		return false
	case in.holds && !in.runs:
		in.runs = true
		return true
	}
	for _, n := range in.needs {
		in.pass = max(in.pass, n.pool.passed)
	}
	l.enter(in)
	if in.holds {
		return false // Release will tell
	}
	l.give(nil)
	in.runs = in.holds
	return in.holds
}

// Withdraw takes back what the group has asked for and not come for.
func (g *Group) Withdraw(others *Turns) {
	l := g.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := false
	for _, in := range g.instances {
		changed = l.withdraw(in) || changed
	}
	if changed {
		l.give(others)
	}
}

// WithdrawOne is Withdraw for one instance.
func (g *Group) WithdrawOne(i int, others *Turns) {
	l := g.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < len(g.instances) && l.withdraw(g.instances[i]) {
		l.give(others)
	}
}

func (l *Limiter) withdraw(in *instance) bool {
	if in == nil {
		return false
	}
	changed := in.waits
	l.leave(in)
	if in.holds && !in.runs {
		in.free()
		changed = true
	}
	return changed
}

// Release says that an instance has executed, and gives its resources back. It
// reports whether it is now the turn of an instance of the same group; that of
// others is added to others.
func (g *Group) Release(i int, others *Turns) (own bool) {
	l := g.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	in := g.instances[i]
	if in == nil || !in.runs {
		return false // Close or Remove was faster
	}
	again := in.waits
	l.leave(in)
	in.free()
	in.pass += min(in.priority, math.MaxInt64-in.pass)
	if again && !g.closed {
		l.enter(in)
	}
	var turns Turns
	l.give(&turns)
	for _, t := range turns.groups {
		if t == g {
			own = true
		} else {
			others.add(t)
		}
	}
	return own
}

// enter puts an instance in line, behind those with the same pass.
func (l *Limiter) enter(in *instance) {
	in.waits = true
	at, _ := slices.BinarySearchFunc(l.waiting, in.pass, func(o *instance, pass int64) int {
		if o.pass > pass {
			return 1
		}
		return -1
	})
	l.waiting = slices.Insert(l.waiting, at, in)
}

// leave takes it out of the line.
func (l *Limiter) leave(in *instance) {
	if in.waits {
		in.waits = false
		at := slices.Index(l.waiting, in)
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
}

// give gives their turn to those whose turn it is.
func (l *Limiter) give(to *Turns) {
	kept := l.waiting[:0]
	for _, in := range l.waiting {
		switch {
		case in.holds: // about to be released
			kept = append(kept, in)
		case in.fits():
			in.waits, in.holds = false, true
			for _, n := range in.needs {
				n.pool.used += n.count
				n.pool.passed = max(n.pool.passed, in.pass-loading*(in.priority-1))
			}
			to.add(in.group)
		default:
			for _, n := range in.needs {
				n.pool.reserved += n.count
			}
			kept = append(kept, in)
		}
	}
	for _, in := range kept {
		for _, n := range in.needs {
			n.pool.reserved = 0
		}
	}
	clear(l.waiting[len(kept):])
	l.waiting = kept
}

func (in *instance) fits() bool {
	for _, n := range in.needs {
		if n.count > n.pool.limit-n.pool.used-n.pool.reserved {
			return false
		}
	}
	return true
}

// free gives back what an instance holds.
func (in *instance) free() {
	in.holds, in.runs = false, false
	for _, n := range in.needs {
		n.pool.used -= n.count
	}
}

func (t *Turns) add(g *Group) {
	if t != nil && !slices.Contains(t.groups, g) {
		t.groups = append(t.groups, g)
	}
}
