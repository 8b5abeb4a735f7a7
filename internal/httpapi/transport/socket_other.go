//go:build !linux

package transport

import "syscall"

// Elsewhere system calls are made in other ways: package net knows them.
const rawCalls = false

func readOnce(uintptr, []byte) (int, syscall.Errno)  { return 0, syscall.EINVAL }
func writeOnce(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.EINVAL }
