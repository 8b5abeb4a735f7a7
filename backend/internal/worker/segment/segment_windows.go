package segment

import (
	"errors"
	"os"
)

// mapSegment fails on this platform.
func Map(*os.File, int, bool) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// unmapSegment has nothing to do.
func Unmap([]byte) {}
