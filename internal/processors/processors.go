// Package processors owns how many processors Go's scheduler uses (GOMAXPROCS)
// while a server runs.
//
// With a processor to spare, Go's scheduler wakes another thread for nearly
// every goroutine that becomes ready. Where models run in processes of their
// own and clients share the machine, that thread finds the core taken or its
// work done, and the wake-ups cost more than the work: a third of the server's
// CPU of a small request to a Python model. So [Follow] halves the number of
// processors while the load leaves half of them idle, and gives all back when it
// grows. Where half are nearly enough it tries which number serves more (trial.go).
//
// Whatever may hold a processor without using it asks for all of them: [Hold]
// for as long as files are read, [Keep] for good once there are calls into C
// libraries. [Count] is how many there are, whatever is used at the moment.
//
// [GiveWay] lets others have the core.
//
// [Affinity] keeps threads to some of the processors.
//
// Open follow.go for the rules.
package processors

import (
	"runtime"
	"sync"
)

var state struct {
	mu      sync.Mutex
	all     int // how many there are while fewer are used; 0 while all are
	holds   int
	running bool
}

// Count returns the number of processors that Go may use, at least 1: what
// runtime.GOMAXPROCS(0) says while [Follow] has not lowered it. Who divides the
// machine among threads or processes divides this.
func Count() int {
	state.mu.Lock()
	defer state.mu.Unlock()
	return countLocked()
}

func countLocked() int {
	if state.all > 0 {
		return state.all
	}
	return runtime.GOMAXPROCS(0)
}

// Hold has all processors used until release is called, which is to be called
// once. It is for work that may sit on a processor in system calls, as reading
// files does: with one processor everybody else would wait for it.
func Hold() (release func()) {
	state.mu.Lock()
	state.holds++
	allLocked()
	state.mu.Unlock()
	return func() {
		state.mu.Lock()
		state.holds--
		state.mu.Unlock()
	}
}

// Keep has all processors used from now on. It is for calls into C libraries,
// which may take any time.
func Keep() { _ = Hold() }

// allLocked uses all processors.
func allLocked() {
	if state.all == 0 {
		return
	}
	// Back to what the runtime finds, which goes on following the limits of the
	// container.
	runtime.SetDefaultGOMAXPROCS()
	state.all = 0
}

// useLocked uses n of all processors.
func useLocked(n int) {
	all := countLocked()
	switch {
	case n >= all || state.holds > 0:
		allLocked()
	case n != runtime.GOMAXPROCS(0):
		state.all = all
		runtime.GOMAXPROCS(n) // stops the world for some 20 µs
	}
}
