package server

import (
	"os"
	"os/exec"
	"syscall"
)

func apart(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// ask kills, too: there is no signal that asks a process without a window.
func ask(p *os.Process) { _ = p.Kill() }

func kill(p *os.Process) { _ = p.Kill() }

func killed(syscall.WaitStatus) bool { return false }
