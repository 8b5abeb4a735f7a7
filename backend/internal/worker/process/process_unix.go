//go:build unix

package process

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend/internal/worker/linelog"
)

// spawn starts the command as a child of the server, in a process group of its
// own, with control as descriptor 3 and descriptors as 4.
func (l *Launcher) spawn(cmd Command, lines *linelog.Log) (*Process, error) {
	p, theirs, err := newProcess(lines)
	if err != nil {
		return nil, err
	}
	defer closeFiles(theirs)
	c, begun, err := cmd.prepare(p.tag)
	if err != nil {
		p.closeChannels()
		_ = p.output.Close()
		return nil, err
	}
	defer begun()
	c.ExtraFiles[0], c.ExtraFiles[1] = theirs[0], theirs[1]
	c.Stdout, c.Stderr = theirs[2], theirs[2]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		p.closeChannels()
		_ = p.output.Close()
		return nil, errLauncherClosed
	}
	err = startConfined(c)
	if err == nil {
		p.pid = c.Process.Pid
		if err = cmd.confined(p); err != nil {
			_ = c.Process.Kill()
			_ = c.Wait() // killed: there is nothing to learn
		}
	}
	if err != nil {
		p.closeChannels()
		_ = p.output.Close()
		return nil, err
	}
	p.follow()
	l.wg.Go(func() {
		_ = c.Wait()               // the status says it all
		if c.ProcessState == nil { // somebody else waited for it, as an init that reaps all
			p.end(exitStatus{})
			return
		}
		p.end(waitStatus(int32(c.ProcessState.Sys().(syscall.WaitStatus))))
	})
	l.wg.Go(p.copyOutput)
	return p, nil
}

// waitStatus translates the status of wait(2).
func waitStatus(status int32) exitStatus {
	w := syscall.WaitStatus(status)
	if w.Signaled() {
		return exitStatus{known: true, signal: unix.SignalName(w.Signal())}
	}
	return exitStatus{known: true, code: w.ExitStatus()}
}
