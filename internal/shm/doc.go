// Package shm owns the regions of client shared memory: which are registered,
// who may use them, and every byte that moves between them and the server.
//
// A region is a POSIX shared-memory object below /dev/shm, or a piece of GPU
// memory that another process shares by a CUDA handle. The server never maps a
// client's memory: it reads with pread and writes with pwrite (or a copy of the
// CUDA driver), so that a client that truncates its file gets an error and
// cannot end the server, and cannot change an input once it has been taken.
//
// Open registry.go first, then region.go. A nil [Registry] is that of a client
// without access: nothing can be registered and no region is known.
package shm
