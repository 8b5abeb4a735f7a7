package transport

import (
	"syscall"
	"unsafe"
)

const rawCalls = true

// readOnce reads into b, which is not empty.
func readOnce(fd uintptr, b []byte) (int, syscall.Errno) {
	return once(syscall.SYS_READ, fd, b)
}

// writeOnce writes of b, which is not empty.
func writeOnce(fd uintptr, b []byte) (int, syscall.Errno) {
	return once(syscall.SYS_WRITE, fd, b)
}

func once(call, fd uintptr, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}
