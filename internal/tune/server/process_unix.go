//go:build unix

package server

import (
	"os"
	"os/exec"
	"syscall"
)

// apart starts a process in a group of its own: Ctrl-C is ours to answer, and the
// server's workers are ended with it.
func apart(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	withUs(c.SysProcAttr)
}

func ask(p *os.Process) { _ = p.Signal(syscall.SIGTERM) } // one that has ended needs none

// kill ends the server and what it has started.
func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) } // not yet waited for: its group is its own

func killed(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGKILL }
