//go:build unix && !linux

package server

import "syscall"

func withUs(*syscall.SysProcAttr) {}
