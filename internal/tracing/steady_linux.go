package tracing

import (
	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend"
)

// steady is what lies between the clock of backend.Now and the machine's steady
// clock, which is what the peer's file holds: a client on the same machine can
// compare its own times with those of the file.
var steady = func() int64 {
	var t unix.Timespec
	now := backend.Now()
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano() - now
}()
