//go:build unix

package process

import (
	"context"
	"io"
	"time"
)

// onceDelay is how long what a process has left behind may hold its output open.
const onceDelay = time.Second

// RunOnce runs a process that does one thing and ends, confined as workers are:
// their user, limits and rights, nothing of it outlives the call. The command is
// a Python interpreter, which reads program from its standard input; it gets it
// when the confinement stands.
// The command's Zygote has no meaning here.
func RunOnce(ctx context.Context, cmd Command, program string, stdout, stderr io.Writer) error {
	p := &Process{exited: make(chan struct{}), tag: newTag()}
	c, begun, err := cmd.prepare(p.tag)
	if err != nil {
		return err
	}
	c.Stdout, c.Stderr, c.WaitDelay = stdout, stderr, onceDelay
	in, err := c.StdinPipe()
	if err != nil {
		begun()
		return err
	}
	err = startConfined(c)
	begun()
	if err != nil {
		_ = in.Close()
		return err
	}
	p.pid = c.Process.Pid
	p.follow()
	defer p.Release()
	defer context.AfterFunc(ctx, p.Kill)()
	failed := cmd.confined(p)
	if failed == nil {
		_, _ = io.WriteString(in, program) // who does not read it says why by the exit status
	} else {
		p.Kill()
	}
	_ = in.Close()
	err = c.Wait()
	p.end(exitStatus{})
	p.signal(signalKill) // what it has started and left behind
	p.Sweep()
	if failed != nil {
		return failed
	}
	if err == nil {
		err = ctx.Err() // it may have ended by itself then, but not in time
	}
	return err
}
