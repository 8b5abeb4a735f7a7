//go:build unix && !linux

package worker

import (
	"os/exec"
	"syscall"
)

func startConfined(c *exec.Cmd) error { return c.Start() }

func credential(*User) *syscall.Credential { return nil }

func noCore(int) {}

// apply has nothing to do: LimitsOf refuses limits here.
func (l Limits) apply(int) error { return nil }
