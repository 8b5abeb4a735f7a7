// Package mapping makes objects of shared memory that another process can open by
// their name.
package mapping

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const folder = "/dev/shm"

// Create makes an object of so many bytes, zero, that nobody else of other users may
// read, and maps it. One of that name must not be there.
func Create(key string, size int) ([]byte, error) {
	name := strings.TrimPrefix(key, "/")
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		return nil, fmt.Errorf("shared memory %q: expected the name of an object in %s", key, folder)
	}
	if size <= 0 {
		return nil, fmt.Errorf("shared memory %q: expected a size above 0, got %d", key, size)
	}
	path := filepath.Join(folder, name)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// Its pages are taken now: what is full later would be a fault of the process.
	if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(size)); err != nil {
		return nil, errors.Join(&os.PathError{Op: "allocate", Path: path, Err: err}, os.Remove(path))
	}
	data, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "map", Path: path, Err: err}, os.Remove(path))
	}
	return data, nil
}

// Remove unmaps an object and removes its name.
func Remove(key string, data []byte) error {
	return errors.Join(unix.Munmap(data), os.Remove(filepath.Join(folder, strings.TrimPrefix(key, "/"))))
}
