package channel

import (
	"os"

	"golang.org/x/sys/unix"
)

// PeerOf returns the process at the other end of a control channel, as the kernel
// knows it, 0 where it does not.
func PeerOf(control *os.File) (pid int) {
	raw, err := control.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if c, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(c.Pid)
		}
	})
	return pid
}
