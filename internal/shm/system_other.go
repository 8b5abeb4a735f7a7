//go:build !linux

package shm

import "errors"

// errPlatform says that there is no system shared memory here: elsewhere its
// objects are no files that can be read and written.
var errPlatform = errors.New("no system shared memory on this platform")

func openSystem(string, string) (memory, uint64, error) { return nil, 0, errPlatform }
