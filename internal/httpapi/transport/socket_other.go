//go:build !linux || race

package transport

import "syscall"

// Elsewhere system calls are made in other ways, which package net knows; so does
// the race detector.
const rawCalls = false

func readOnce(uintptr, []byte) (int, syscall.Errno)  { return 0, syscall.EINVAL }
func writeOnce(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.EINVAL }
