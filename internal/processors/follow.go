package processors

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// window is how long the use of processors is measured before something is
	// made of it.
	window = 50 * time.Millisecond
	// idleShare of one processor is nothing: then nothing is measured before the
	// next request.
	idleShare = 0.02
	// calmShare is how much of the lower number may be in use for it to be enough.
	// Fewer processors cost less CPU, so that what is in use falls further then.
	calmShare = 0.9
	// busyShare is how much of them must be in use, or wait for a core, to need
	// more: where others take the cores, one thread gets less of them than two.
	busyShare = 0.95
	// calmWindows in a row have to be calm before processors are given up, so that
	// a pause between requests does not do it.
	calmWindows = 2
	// busyWindows in a row have to be busy before all processors are used: the wait
	// for a core comes in bursts where others have work, too, and each time all are
	// used they stay so for stay windows, at a quarter more CPU a request.
	busyWindows = 2
	// stay is how many windows all processors stay in use after they were needed:
	// changing the number stops the world for a moment.
	stay = 20
)

// rules decide how many processors are used. It has no clock: each call of next
// is a window.
type rules struct {
	calm  int // calm windows in a row
	busy  int // busy windows in a row
	stays int // windows for which nothing is given up
	trial trial
}

// measured is what a window has shown.
type measured struct {
	used   float64 // processors in use
	waited float64 // waits for a core, in processors
	served float64 // requests that began
}

// next returns how many of all processors to use after a window with now of them.
func (r *rules) next(m measured, now, all int) int {
	low := max(1, all/2)
	r.stays = max(0, r.stays-1)
	r.trial.passes(m)
	switch {
	case m.used < idleShare:
		r.trial.left = 0
		return now
	case r.trial.left > 0:
		n := r.trial.goesOn(m, now, low, all)
		if n == all {
			r.stays = stay
		}
		r.busy, r.calm = 0, 0
		return n
	case now < all && m.used+m.waited <= busyShare*float64(now):
		r.busy = 0
		return now
	case now < all && r.trial.knows(m):
		r.busy = 0 // another load has to be busy for as long as any
		return now
	case now < all:
		if r.busy++; r.busy < busyWindows {
			return now
		}
		r.busy, r.calm, r.stays = 0, 0, stay
		r.trial.begin()
		return all
	case m.used > calmShare*float64(low) || r.stays > 0:
		r.calm = 0
		if r.stays == 0 && m.used <= tryShare*float64(low) && !r.trial.knows(m) && r.trial.begin() {
			return low
		}
		return all
	}
	if r.calm++; r.calm < calmWindows {
		return all
	}
	r.calm = 0
	return low
}

var (
	idle   atomic.Bool // Follow waits for wake
	wake   = make(chan struct{}, 1)
	served atomic.Int64 // calls of Work
)

// Work says that there is work. Every request says so: it costs next to nothing.
func Work() {
	served.Add(1)
	if idle.Load() && idle.CompareAndSwap(true, false) {
		select {
		case wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// Follow uses as many processors as the process needs, until ctx ends; then it
// uses all again and returns. While nobody says [Work] it sleeps. It does nothing
// where the user has set GOMAXPROCS or the system does not say what the process
// uses. One call at a time does it.
func Follow(ctx context.Context) {
	if _, ok := cpuTime(); !ok || os.Getenv("GOMAXPROCS") != "" || !begin() {
		return
	}
	defer end()
	var r rules
	last := time.Duration(-1) // wait time at the end of the window before
	t := time.NewTimer(window)
	defer t.Stop()
	for {
		used, _ := cpuTime()
		begun := served.Load()
		since, before, lowered := time.Now(), time.Duration(0), runtime.GOMAXPROCS(0) < Count()
		switch {
		case lowered && last >= 0:
			before = last
		case lowered:
			before = waitTime()
		}
		last = -1
		t.Reset(window)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, _ := cpuTime()
		waited, elapsed := 0.0, float64(max(1, time.Since(since)))
		if lowered {
			last = waitTime()
			waited = float64(last-before) / elapsed
		}
		share := float64(now-used) / elapsed
		rate := float64(served.Load()-begun) / elapsed * float64(window)
		state.mu.Lock()
		useLocked(r.next(measured{share, waited, rate}, runtime.GOMAXPROCS(0), countLocked()))
		state.mu.Unlock()
		if share < idleShare {
			last = -1 // what others have done meanwhile is no window's
			idle.Store(true)
			select {
			case <-ctx.Done():
				idle.Store(false)
				return
			case <-wake:
			}
		}
	}
}

func begin() bool {
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.running {
		return false
	}
	state.running = true
	return true
}

func end() {
	state.mu.Lock()
	defer state.mu.Unlock()
	state.running = false
	allLocked()
}
