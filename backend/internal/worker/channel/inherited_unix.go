//go:build unix

package channel

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Inherited are the worker's ends of its channels: descriptors 3 and 4.
func Inherited() (control, descriptors *os.File, err error) {
	for _, fd := range []int{3, 4} {
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
			return nil, nil, fmt.Errorf("descriptor %d is not the socket of a server", fd)
		}
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, nil, err
		}
	}
	return os.NewFile(3, "control"), os.NewFile(4, "descriptors"), nil
}

// ReceiveFile takes one descriptor, which comes with one byte.
func ReceiveFile(channel *os.File) (*os.File, error) {
	raw, err := channel.SyscallConn()
	if err != nil {
		return nil, err
	}
	oob, data := make([]byte, unix.CmsgSpace(4)), make([]byte, 1)
	var n int
	var received error
	if err := raw.Read(func(fd uintptr) bool {
		for {
			if _, n, _, _, received = unix.Recvmsg(int(fd), data, oob, 0); received != unix.EINTR {
				return received != unix.EAGAIN
			}
		}
	}); err != nil {
		return nil, err
	}
	if received != nil {
		return nil, fmt.Errorf("descriptor of shared memory: %w", received)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("descriptor of shared memory: %d messages, %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("descriptor of shared memory: %d descriptors, %w", len(fds), err)
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "segment"), nil
}
