package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps in the kernel: timers of the runtime are as much as a millisecond late.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // who calls looks at the time again
}
