package listen

import (
	"net"
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

// Waiting returns how many connections wait to be accepted, and whether l says so.
func Waiting(l net.Listener) (n int, ok bool) {
	t, isTCP := l.(*net.TCPListener)
	if !isTCP {
		return 0, false
	}
	c, err := t.SyscallConn()
	if err != nil {
		return 0, false
	}
	var info *unix.TCPInfo
	if e := c.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); e != nil || err != nil {
		return 0, false
	}
	return int(info.Unacked), true // of a listener these are the ones not accepted
}
