package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
)

// spawn starts the command as a child of the server, in a job of its own, with the handles
// of its ends of the channels.
func (l *Launcher) spawn(cmd Command, lines *linelog.Log) (*Process, error) {
	p, theirs, err := newWorker(lines)
	if err != nil {
		return nil, err
	}
	defer theirs.close()
	failed := func(err error) (*Process, error) {
		p.closeChannels()
		_ = p.output.Close()
		return nil, err
	}
	c := exec.Command(cmd.Path, cmd.Args...) //nolint:noctx // a context would kill it behind the supervisor's back
	c.Env = append(slices.Clone(cmd.Env), channel.Inheritance(theirs.control, theirs.descriptors))
	c.Dir, c.Stdout, c.Stderr = cmd.Dir, theirs.output, theirs.output
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return failed(errLauncherClosed)
	}
	j, err := newJob(cmd.Limits)
	if err != nil {
		return failed(err)
	}
	if err := j.start(c, theirs.control, theirs.descriptors); err != nil {
		j.close()
		return failed(err)
	}
	var refused error
	err = c.Process.WithHandle(func(handle uintptr) { p.ch.Peer, refused = channel.PeerFrom(windows.Handle(handle)) })
	if err = errors.Join(err, refused); err != nil {
		j.close()
		_ = c.Wait() // ended with its job: there is nothing to learn
		return failed(err)
	}
	p.follow(c, j)
	l.wg.Go(func() {
		_ = c.Wait() // the status says it all
		j.end()      // before anybody hears of it: what it has started holds the channels
		close(p.gone)
		p.end(statusOf(c)) // after it, so that over is true for whoever sees the status
	})
	l.wg.Go(p.copyOutput)
	return p, nil
}

// workerEnds are what a worker inherits.
type workerEnds struct {
	control, descriptors windows.Handle
	output               *os.File
}

func (w *workerEnds) close() {
	for _, h := range []windows.Handle{w.control, w.descriptors} {
		if h != 0 {
			_ = windows.CloseHandle(h)
		}
	}
	if w.output != nil {
		_ = w.output.Close()
	}
}

// newWorker makes the channels of a worker.
func newWorker(lines *linelog.Log) (p *Process, theirs *workerEnds, err error) {
	p = &Process{exited: make(chan struct{}), read: make(chan struct{}), lines: lines}
	theirs = &workerEnds{}
	defer func() {
		if err != nil {
			theirs.close()
			for _, f := range []*os.File{p.ch.Control, p.ch.Descriptors, p.output} {
				if f != nil {
					_ = f.Close()
				}
			}
		}
	}()
	if p.ch.Control, theirs.control, err = channel.NewPipe("control", true); err != nil {
		return nil, nil, err
	}
	if p.ch.Descriptors, theirs.descriptors, err = channel.NewPipe("descriptors", true); err != nil {
		return nil, nil, err
	}
	var written windows.Handle
	if p.output, written, err = channel.NewPipe("output", false); err != nil {
		return nil, nil, err
	}
	theirs.output = os.NewFile(uintptr(written), "output of the worker")
	return p, theirs, nil
}

// follow takes the child that has just been started.
func (p *Process) follow(c *exec.Cmd, j *job) {
	p.pid, p.handle, p.gone = c.Process.Pid, j.file, make(chan struct{})
	p.signal = func(processSignal) { j.end() } // nothing gentler reaches a process without windows and console
	p.over = p.hasGone
}

// killed is the exit status of what the server has ended.
const killed = 0x4E574B4C

// statuses are the ends of processes by the system that are told by name.
var statuses = map[uint32]string{
	0xC0000005: "an access violation",
	0xC0000017: "the end of its memory",
	0xC000001D: "an illegal instruction",
	0xC0000094: "a division by zero",
	0xC00000FD: "a stack overflow",
	0xC0000135: "a library that was not found",
	0xC0000374: "a corrupted heap",
	0xC0000409: "a stack buffer overrun, or an abort",
}

// statusOf returns how a process that was waited for has ended.
func statusOf(c *exec.Cmd) exitStatus {
	if c.ProcessState == nil {
		return exitStatus{}
	}
	code := c.ProcessState.Sys().(syscall.WaitStatus).ExitCode
	switch name := statuses[code]; {
	case code == killed:
		return exitStatus{known: true, signal: "SIGKILL"}
	case name != "":
		return exitStatus{known: true, signal: fmt.Sprintf("%s (%#x)", name, code)}
	}
	return exitStatus{known: true, code: int(int32(code))}
}

func waitStatus(status int32) exitStatus { return exitStatus{known: true, code: int(status)} }

// canVouch: no process is forked from another here.
func canVouch() bool { return false }

func (p *Process) vouched(int, int) error { return errors.New("zygotes need Linux") }

// quit ends the process: there is no signal that has an interpreter say where it is before.
func (p *Process) quit() { p.Kill() }

// Release lets go of the job, and so ends what is left in it.
func (p *Process) Release() {
	if p.handle != nil {
		_ = p.handle.Close()
	}
}

func newTag() uint64 { return 0 }

// Sweep has nothing to look for: nothing leaves a job.
func (p *Process) Sweep() {}

func (l *Launcher) here(Command, *linelog.Log) (*Process, error) {
	return nil, fmt.Errorf("workers in the server's own process: %w", errors.ErrUnsupported)
}
