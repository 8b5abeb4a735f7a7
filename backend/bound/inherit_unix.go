//go:build unix

package bound

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Inherit returns the channels that this process was started with.
func Inherit(control, descriptors int) (*os.File, *os.File, error) {
	files := [2]*os.File{}
	for i, fd := range []int{control, descriptors} {
		kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		if err != nil || kind != unix.SOCK_STREAM {
			return nil, nil, fmt.Errorf("descriptor %d is not an inherited stream socket", fd)
		}
		unix.CloseOnExec(fd)
		// Only the control channel waits in the poller; what goes over the other one
		// always fits.
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, nil, fmt.Errorf("descriptor %d: %w", fd, err)
		}
		files[i] = os.NewFile(uintptr(fd), [2]string{"control", "descriptors"}[i])
	}
	return files[0], files[1], nil
}
