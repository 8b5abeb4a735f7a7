//go:build unix

package segment

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Map maps size bytes of a segment.
func Map(file *os.File, size int, writable bool) ([]byte, error) {
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	data, err := unix.Mmap(int(file.Fd()), 0, size, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", size, err)
	}
	return data, nil
}

// Unmap undoes Map.
func Unmap(data []byte) { _ = unix.Munmap(data) }
