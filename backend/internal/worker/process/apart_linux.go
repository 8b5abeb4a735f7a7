package process

import (
	"errors"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Workers of one user could look into each other, and into the process that they
// are forked from, and signal all of these. Landlock keeps them from it: a process
// in a domain can trace and signal only what is in the domain, that is itself and
// what it has started.

// canKeepApart reports whether the kernel has Landlock with scopes of signals
// (Linux 6.12). With less a domain would take rights to files, too.
var canKeepApart = sync.OnceValue(func() bool {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno == 0 && version >= 6
})

// Apart returns nil where workers of another user are kept apart from each other,
// else why they are not.
func Apart() error {
	if canKeepApart() {
		return nil
	}
	return errors.New("this kernel has no Landlock with scopes of signals (Linux 6.12), or the sandbox lets nobody use it")
}

// apart reports whether the worker is to be kept apart: one of the server's own
// user could get at the server's files in any case.
func (c *Command) apart() bool { return c.User != nil && canKeepApart() }

// keepApart puts this thread, and all that it starts, in a domain of its own.
func keepApart() error {
	attr := struct{ files, net, scoped uint64 }{scoped: unix.LANDLOCK_SCOPE_SIGNAL}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(fd))
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
