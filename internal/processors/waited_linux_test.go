package processors

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Two threads that want the same core wait for it by turns, and that is seen.
func TestWaitTime(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("the kernel does not say how long threads wait:", err)
	}
	var stop atomic.Bool
	var set unix.CPUSet
	set.Set(here(t)[0])
	ended := make(chan error, 2)
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
		select {
		case err := <-ended:
			t.Fatal(err) // it could not be bound to the core
		default:
			runtime.Gosched()
		}
	}
	stop.Store(true)
	for range 2 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
