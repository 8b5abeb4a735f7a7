//go:build unix

package worker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func mapSegment(file *os.File, size int, writable bool) ([]byte, error) {
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

func unmapSegment(data []byte) { _ = unix.Munmap(data) }
