package neso

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// silenceLimit is how long a client may leave data of ours unacknowledged, or
// its window shut, before the kernel gives the connection up. Without it a
// client that asks and never reads holds a goroutine for ever; a write deadline
// would do the same at the cost of a timer for each reply.
const silenceLimit = 2 * time.Minute

// boundSilence sets the limit on a listener; its connections inherit it.
func boundSilence(c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silenceLimit.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
