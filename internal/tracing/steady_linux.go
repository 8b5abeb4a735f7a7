package tracing

import (
	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend"
)

// steady is the difference between the clock of backend.Now and the machine's
// steady clock. The peer's file has times of the steady clock, so that a client on
// the same machine can compare its own times with the file's.
var steady = func() int64 {
	var t unix.Timespec
	now := backend.Now()
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano() - now
}()
