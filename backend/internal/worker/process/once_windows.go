package process

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"time"
)

// onceDelay is how long what a process has left behind may hold its output open.
const onceDelay = time.Second

// RunOnce runs a process that does one thing and ends, in a job as workers are: nothing of
// it outlives the call. The command is a Python interpreter, which reads program from its
// standard input.
func RunOnce(ctx context.Context, cmd Command, program string, stdout, stderr io.Writer) error {
	j, err := newJob(cmd.Limits)
	if err != nil {
		return err
	}
	defer j.close()
	c := exec.Command(cmd.Path, cmd.Args...) //nolint:noctx // its job ends it
	c.Env, c.Dir, c.Stdout, c.Stderr, c.WaitDelay = cmd.Env, cmd.Dir, stdout, stderr, onceDelay
	c.Stdin = strings.NewReader(program)
	if err := j.start(c); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, j.end)()
	if err = c.Wait(); err == nil {
		err = ctx.Err() // it may have ended by itself then, but not in time
	}
	return err
}
