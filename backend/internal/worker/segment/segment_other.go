//go:build !linux && !windows

package segment

import (
	"errors"
	"fmt"
	"os"
)

// createSegmentFile makes a private file without a name. It cannot be sealed.
func createSegmentFile(size uint64) (*os.File, error) {
	file, err := os.CreateTemp("", "neso-")
	if err != nil {
		return nil, fmt.Errorf("create shared memory: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("unlink shared memory: %w", err)
	}
	if err := file.Truncate(int64(size)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("size shared memory to %d bytes: %w", size, err)
	}
	return file, nil
}

// ReadOnly fails: a file without a name cannot be opened again.
func (s *Segment) ReadOnly() (*os.File, error) { return nil, errors.ErrUnsupported }

// punch does nothing: the page cache of a private file is the system's to trim.
func (s *Segment) punch(_, _ uint64) {}
