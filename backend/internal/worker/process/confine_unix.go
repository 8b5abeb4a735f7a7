//go:build unix && !linux

package process

import (
	"os"
	"os/exec"
	"syscall"
)

func startConfined(c *exec.Cmd) error { return c.Start() }

func noCore(int) {}

// prepare returns what is to be started. Nothing confines workers here: limits.Of
// and FindUser refuse what would need it.
func (c *Command) prepare(uint64) (cmd *exec.Cmd, begun func(), err error) {
	cmd = exec.Command(c.Path, c.Args...) //nolint:noctx // a context would kill it behind the supervisor's back
	cmd.Env, cmd.Dir = c.Env, c.Dir
	cmd.ExtraFiles = make([]*os.File, 2)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, func() {}, nil
}

func (c *Command) confined(*Process) error { return nil }
