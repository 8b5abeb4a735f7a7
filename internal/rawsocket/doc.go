// Package rawsocket reads and writes connections by system calls that the Go
// runtime is not told of.
//
// Go's sockets do not block, so such a call only copies. The runtime prepares for
// each call of package net to take long all the same. Where others want the
// processors as well, its monitor then often takes the call for a long one, and
// starts a thread in its place. For small messages that costs more than the call.
//
// Open conn_linux.go first; nowait_linux.go is for sockets of workers. The race
// detector follows what package syscall orders, and no raw system call:
// order_race_linux.go tells it.
package rawsocket
