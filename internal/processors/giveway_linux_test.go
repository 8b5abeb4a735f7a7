package processors

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Of two threads on one core the one that gives way lets the other one in at once, and
// not when its time slice has passed.
func TestGiveWay(t *testing.T) {
	var stop atomic.Bool
	var counted atomic.Int64 // by the other one, as long as it runs
	var set unix.CPUSet
	set.Set(here(t)[0])
	ended := make(chan error, 1)
	letIn := make(chan int, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.SchedSetaffinity(0, &set)
		for err == nil && !stop.Load() {
			counted.Add(1)
		}
		ended <- err
	}()
	go func() {
		runtime.LockOSThread()
		n := 0
		if unix.SchedSetaffinity(0, &set) == nil {
			for range 400 { // the other one may have had its turn just before
				before := counted.Load()
				GiveWay()
				if counted.Load() != before {
					n++
				}
			}
		}
		letIn <- n
	}()
	n := <-letIn
	stop.Store(true)
	if err := <-ended; err != nil {
		t.Fatal(err) // it could not be bound to the core
	}
	if n < 20 {
		t.Errorf("let in %d times of 400, expected 20 at least", n)
	}
}
