package board

import (
	"sync"

	"golang.org/x/sys/unix"
)

const (
	membarrierQuery  = 0
	membarrierGlobal = 1
)

// CanFence reports whether Fence works here.
var CanFence = sync.OnceValue(func() bool {
	commands, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierQuery, 0, 0)
	return errno == 0 && commands&membarrierGlobal != 0
})

// Fence returns when every thread of every process has passed a memory barrier
// since its call. It takes some milliseconds, and nothing of others.
func Fence() {
	_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0) // it cannot fail where CanFence
}
