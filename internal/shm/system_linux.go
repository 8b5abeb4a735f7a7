package shm

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// errPlatform says that there is no system shared memory here.
var errPlatform = errors.New("no system shared memory on this platform")

// systemMemory is a file of the shared-memory file system.
type systemMemory struct{ *os.File }

// openSystem opens the object and returns its size in bytes. The name has no
// slash; what it names must be a regular file of the directory itself, no link
// that leads elsewhere.
func openSystem(dir, name string) (memory, uint64, error) {
	d, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(d)
	// Not to block on a pipe that somebody has put there.
	fd, err := unix.Openat(d, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a shared memory object")
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return systemMemory{f}, uint64(info.Size()), nil
}

func (m systemMemory) ReadAt(b []byte, at int64) (int, error) {
	n, err := m.File.ReadAt(b, at)
	if err == io.EOF {
		err = errGone
	}
	return n, reason(err)
}

// WriteAt writes only what is there: a write beyond the end would make the
// client's file larger.
func (m systemMemory) WriteAt(b []byte, at int64) (int, error) {
	info, err := m.Stat()
	if err != nil {
		return 0, reason(err)
	}
	if int64(len(b)) > info.Size()-at {
		return 0, errGone
	}
	n, err := m.File.WriteAt(b, at)
	return n, reason(err)
}

// reason takes the operation and the name of the object off an error: what
// goes to a client names its region only.
func reason(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}
