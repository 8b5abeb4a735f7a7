//go:build unix

package process

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
)

// here has cmd.Here be the worker, in a goroutine of this process. It cannot be killed:
// where a worker would be, its channels end, and one that still does not return is given
// up. Nobody waits for it then, Close neither.
func (l *Launcher) here(cmd Command, lines *linelog.Log) (*Process, error) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return nil, errLauncherClosed
	}
	p, theirs, err := newProcess(lines)
	if err != nil {
		return nil, err
	}
	for _, f := range theirs[:2] {
		raw, err := f.SyscallConn()
		if err == nil {
			_ = raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), true) })
		}
		if err != nil {
			p.closeChannels()
			_ = p.output.Close()
			closeFiles(theirs)
			return nil, err
		}
	}
	p.tag = 0 // what it starts is the program's own
	p.pid, p.gone = os.Getpid(), make(chan struct{})
	p.signal = p.hangUp()
	p.over = p.hasGone
	_ = theirs[2].Close() // it prints where the program does
	go p.copyOutput()     // ends at once: nobody has the other end
	go func() {
		cmd.Here(theirs[0], theirs[1], cmd.Near)
		close(p.gone)
		closeFiles(theirs[:2])
		p.end(exitStatus{known: true})
	}()
	return p, nil
}

// hangUp returns what stands for a signal.
func (p *Process) hangUp() func(processSignal) {
	var once sync.Once
	return func(s processSignal) {
		if s != signalKill {
			return
		}
		once.Do(func() {
			for _, f := range []*os.File{p.ch.Control, p.ch.Descriptors} {
				if raw, err := f.SyscallConn(); err == nil {
					channel.Shutdown(raw)
				}
			}
		})
	}
}
