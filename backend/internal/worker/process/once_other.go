//go:build !unix

package process

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"time"
)

// RunOnce runs a process that does one thing and ends, and reads program from its
// standard input. Nothing confines processes here.
func RunOnce(ctx context.Context, cmd Command, program string, stdout, stderr io.Writer) error {
	c := exec.CommandContext(ctx, cmd.Path, cmd.Args...)
	c.Env, c.Dir, c.Stdout, c.Stderr, c.WaitDelay = cmd.Env, cmd.Dir, stdout, stderr, time.Second
	c.Stdin = strings.NewReader(program)
	return c.Run()
}
