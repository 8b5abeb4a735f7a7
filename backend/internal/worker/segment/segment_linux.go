package segment

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// createSegmentFile makes a memfd that can neither shrink nor grow: a mapping
// of a file that another process has cut kills whoever reads it.
func createSegmentFile(size uint64) (*os.File, error) {
	fd, err := unix.MemfdCreate("neso", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "memfd:neso")
	// Whoever gets a descriptor to read could open the file once more to write,
	// through its own /proc/self/fd: a memfd begins with all rights for everybody.
	if err := unix.Fchmod(fd, 0o400); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("close shared memory to others: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("size shared memory to %d bytes: %w", size, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("seal shared memory: %w", err)
	}
	return file, nil
}

// ReadOnly opens the segment once more, so that who gets the descriptor cannot
// map it to write.
func (s *Segment) ReadOnly() (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", s.file.Fd()), os.O_RDONLY, 0)
}

// punch gives the pages of a range back to the system; they read as zeros.
func (s *Segment) punch(offset, size uint64) {
	_ = unix.Fallocate(int(s.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), int64(size)) // advice
}
