package processors

import "golang.org/x/sys/unix"

// GiveWay lets another thread that waits for this core have it first: what loads and
// ends models calls it between two parts of its work. A kernel that takes the other core
// for busy, as a virtual machine's may, has a request wait behind this thread until its
// time slice has passed. Where nobody waits it returns at once.
func GiveWay() {
	// Not a raw call: whoever waits for Go's processor may have it meanwhile.
	_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
