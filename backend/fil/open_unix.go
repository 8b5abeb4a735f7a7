//go:build unix

package fil

import "syscall"

// nonBlocking keeps the opening of a pipe that a model has left in place of a
// file from waiting.
const nonBlocking = syscall.O_NONBLOCK
