//go:build linux || darwin

package memory

import "golang.org/x/sys/unix"

// untouched returns size bytes of which a page is held once it is touched, or nil
// if the system has none. They are not the collector's: give them to unmap.
func untouched(size int) []byte {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

// unmap gives back what untouched has returned, whole.
func unmap(b []byte) { _ = unix.Munmap(b) }
