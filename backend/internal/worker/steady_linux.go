package worker

import "golang.org/x/sys/unix"

// steady is the system's steady clock, which all processes share.
func steady() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // it always can
	}
	return t.Nano()
}
