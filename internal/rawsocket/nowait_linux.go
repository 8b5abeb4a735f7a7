package rawsocket

import (
	"syscall"
	"unsafe"
)

// Receive receives into b, which is not empty, what has come on a socket, without
// waiting, whether the socket blocks or not: EAGAIN where nothing has.
func Receive(fd uintptr, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			syscall.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			received(fd, b[:n])
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// Send sends what of b a socket takes without waiting, whether the socket blocks or
// not: EAGAIN where it takes nothing.
func Send(fd uintptr, b []byte) (int, syscall.Errno) {
	sending(b)
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
