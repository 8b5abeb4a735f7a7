//go:build unix

package scratch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock takes the lock of an open file, which lasts until it is closed or its
// process ends; false when somebody else has it.
func lock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// removesOpen says that open files can be removed.
const removesOpen = true

// private reports whether a directory is this user's and nobody else may write
// to it: only then nobody can put another one in its place.
func private(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && info.Mode().Perm()&0o722 == 0o700 && int(s.Uid) == os.Geteuid()
}
