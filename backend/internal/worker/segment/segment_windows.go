package segment

import (
	"errors"
	"os"
)

// Map fails on this platform.
func Map(*os.File, int, bool) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// Unmap has nothing to do.
func Unmap([]byte) {}
