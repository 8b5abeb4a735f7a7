package processors

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Two threads that want the same core wait for it by turns, and that is seen.
func TestWaitTime(t *testing.T) {
	var stop atomic.Bool
	var set unix.CPUSet
	set.Set(here(t)[0])
	ended := make(chan error)
	for range 2 {
		go func() {
			runtime.LockOSThread() // for good: the thread ends with the goroutine
			err := unix.SchedSetaffinity(0, &set)
			for err == nil && !stop.Load() {
			}
			ended <- err
		}()
	}
	before := waitTime()
	for waitTime()-before < 20*time.Millisecond {
		runtime.Gosched()
	}
	stop.Store(true)
	for range 2 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
