//go:build !race

package transport

import (
	"syscall"
	"unsafe"
)

// rawCalls says that small reads and writes are raw system calls.
// Not for race builds: the race detector sees what package net orders, and not
// what raw system calls do. Tests without it and those of the binary are held to it.
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
