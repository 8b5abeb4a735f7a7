package segment

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
)

// onlyGiven lets nobody have a section but by a handle that the server gives, with the rights
// that this one has: without a list whoever has a handle to read could ask for one to write. It
// names the owner too, who could change the list otherwise; workers may be of the same user.
const onlyGiven = "D:P(D;;GA;;;WD)(D;;GA;;;S-1-3-4)"

// createSegmentFile makes a section of the page file, which has no name and can neither
// shrink nor grow. Its size counts as committed memory of the system; pages are there from
// the first touch on.
func createSegmentFile(size uint64) (*os.File, error) {
	access, err := channel.Secured(onlyGiven)
	if err != nil {
		return nil, err
	}
	handle, err := windows.CreateFileMapping(windows.InvalidHandle, access, windows.PAGE_READWRITE, uint32(size>>32), uint32(size), nil)
	if err != nil {
		return nil, fmt.Errorf("create shared memory of %d bytes: %w", size, err)
	}
	return os.NewFile(uintptr(handle), "section"), nil
}

// ReadOnly returns a handle that can only be mapped to read.
func (s *Segment) ReadOnly() (*os.File, error) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	self := windows.CurrentProcess()
	var made windows.Handle
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = windows.DuplicateHandle(self, windows.Handle(fd), self, &made, windows.FILE_MAP_READ, false, 0)
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("shared memory to read: %w", err)
	}
	return os.NewFile(uintptr(made), "section to read"), nil
}

// punch does nothing: the pages of a section stay until it ends.
func (s *Segment) punch(_, _ uint64) {}

// Map maps size bytes of a segment, which has at least as many.
func Map(file *os.File, size int, writable bool) ([]byte, error) {
	if size <= 0 {
		return nil, fmt.Errorf("map %d bytes of shared memory", size)
	}
	access := uint32(windows.FILE_MAP_READ)
	if writable {
		access |= windows.FILE_MAP_WRITE
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var at uintptr
	var failed error
	err = raw.Control(func(fd uintptr) { at, failed = windows.MapViewOfFile(windows.Handle(fd), access, 0, 0, uintptr(size)) })
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", size, err)
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size), nil
}

// Unmap undoes Map.
func Unmap(data []byte) { _ = windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(data)))) }
