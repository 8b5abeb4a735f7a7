package guest

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
)

// waker is what the thread of an instance waits on, as on a sync.Cond. Go wakes a
// goroutine that is locked to its thread by way of a third thread, which hands over the
// processor; a futex of its own is one switch. The zero value is ready, once mu is set.
type waker struct {
	mu    *sync.Mutex
	awake atomic.Uint32 // 0 while the thread waits
}

const futexWait, futexWake = 0 | 128, 1 | 128 // of this process alone

// wait gives mu up until signal; it may return without. With soon it keeps its processor
// for a moment, see channel.Source.
func (w *waker) wait(soon bool) {
	w.awake.Store(0)
	w.mu.Unlock()
	if soon {
		limit := syscall.NsecToTimespec(int64(channel.SoonLimit))
		_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&w.awake)), futexWait, 0, uintptr(unsafe.Pointer(&limit)), 0, 0)
	}
	for w.awake.Load() == 0 {
		_, _, _ = syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&w.awake)), futexWait, 0, 0, 0, 0)
	}
	w.mu.Lock()
}

// signal wakes the thread if it waits. What it is to see was done under mu.
func (w *waker) signal() {
	if w.awake.Swap(1) == 0 {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&w.awake)), futexWake, 1, 0, 0, 0)
	}
}
