package isolate

import (
	"syscall"
	"unsafe"
)

// dieBySignal lets the signals of a broken library end the process as they end
// any C program: the server then says which one it was, and a core dump is the
// library's. Go's own handlers would print registers and exit with 2.
func dieBySignal() {
	var action [8]uint64 // the default action, with no flags and an empty mask
	for _, s := range []syscall.Signal{syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL} {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}
