//go:build !linux

package neso

import "syscall"

// boundSilence leaves the platform's own limit.
func boundSilence(syscall.RawConn) error { return nil }
