//go:build !windows

package listen

import "syscall"

// inUse is the error of an address that somebody listens on.
const inUse = syscall.EADDRINUSE
