//go:build !unix

package bound

import (
	"errors"
	"os"
)

// Inherit returns the channels that this process was started with.
func Inherit(int, int) (*os.File, *os.File, error) {
	return nil, nil, errors.New("inherited sockets are not supported on this system")
}
