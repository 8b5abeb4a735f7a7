//go:build unix

package blob

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock of an open file, which lasts until it is closed or its
// process ends; false when somebody else has it.
func lock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// sweeps says that locks tell what a process that ended has left.
const sweeps = true
