//go:build unix

package worker

import (
	"context"
	"io"
	"os/exec"
	"syscall"
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
	c := exec.CommandContext(ctx, cmd.Path, cmd.Args...)
	c.Env, c.Dir, c.Stdout, c.Stderr, c.WaitDelay = cmd.Env, cmd.Dir, stdout, stderr, onceDelay
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: credential(cmd.User)}
	p := &process{exited: make(chan struct{})}
	if !marked() { // in a worker it bears that one's mark
		p.tag = newTag()
	}
	ready := make(chan struct{})
	c.Cancel = func() error {
		<-ready
		p.kill()
		return nil
	}
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := startConfined(c); err != nil {
		_ = in.Close()
		return err
	}
	p.pid = c.Process.Pid
	p.follow()
	defer p.release()
	if p.tag != 0 {
		p.mark()
		program = markProgram(p.tag) + program
	}
	failed := cmd.Limits.apply(p.pid)
	close(ready)
	if failed == nil {
		_, _ = io.WriteString(in, program) // who does not read it says why by the exit status
	} else {
		p.kill()
	}
	_ = in.Close()
	err = c.Wait()
	p.end(exitStatus{})
	p.signal(signalKill) // what it has started and left behind
	if p.tag != 0 {
		p.sweep()
	}
	if failed != nil {
		return failed
	}
	return err
}
