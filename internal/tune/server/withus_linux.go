package server

import "syscall"

// withUs has the kernel end the server if this process is killed.
func withUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
