package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/internal/procfs"
)

// The server signals processes by descriptors (pidfd) alone: a number that
// somebody reports, or that has been given to another process since, would have
// it signal whatever bears it, with the server's rights.

// canVouch reports whether children of zygotes can be told from other processes:
// that takes process descriptors (Linux 5.3) and a /proc. Workers are started one
// by one where it cannot.
var canVouch = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	_, err = procfs.StatOf(os.Getpid())
	return err == nil
})

// follow takes the child that has just been started, and has not been waited for.
func (p *Process) follow() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		fd = -1 // an old kernel: by number, which is the child's as long as it has not been waited for
	}
	p.followed(fd)
}

func (p *Process) followed(fd int) {
	if fd >= 0 {
		_ = unix.SetNonblock(fd, true) // so that the poller takes it
		p.handle = os.NewFile(uintptr(fd), "pidfd")
		p.gone = make(chan struct{})
		go p.watch() // ends with the process, or in release, which waits for it
	}
	p.signal, p.over = p.signalGroup, p.ended
}

// vouched takes the process that a zygote says it has forked, if the kernel says
// so too: pid must be a child of parent. A process that has ended meanwhile cannot
// be signalled any more.
func (p *Process) vouched(parent, pid int) error {
	p.pid = pid
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		p.signal, p.over, p.gone = func(processSignal) {}, func() bool { return true }, make(chan struct{})
		close(p.gone)
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	stat, err := procfs.StatOf(pid)
	// As long as the process lives the number is its own, and so was what has been read.
	if gone := unix.PidfdSendSignal(fd, 0, nil, 0); errors.Is(gone, unix.ESRCH) {
		stat.Parent, err = parent, nil
	}
	if err == nil && stat.Parent != parent {
		err = errors.New("it is not the zygote's child")
	}
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("process %d: %w", pid, err)
	}
	p.followed(fd)
	return nil
}

// send signals the process, or its group; an error says that there is none.
func (p *Process) send(sig syscall.Signal, flags int) error {
	if p.handle == nil {
		return unix.EBADF
	}
	raw, err := p.handle.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.PidfdSendSignal(int(fd), sig, nil, flags) }); err != nil {
		return err // released
	}
	return failed
}

// signalGroup signals the process and what it has started.
func (p *Process) signalGroup(s processSignal) {
	sig := syscall.SIGTERM
	if s == signalKill {
		sig = syscall.SIGKILL
	}
	err := p.send(sig, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	if errors.Is(err, unix.EINVAL) || p.handle == nil { // before Linux 6.9: while the process has not been waited for, its number is its own
		if err = p.there(); err == nil {
			err = syscall.Kill(-p.pid, sig)
		}
	}
	if err != nil && p.there() == nil {
		if p.send(sig, 0) != nil && p.handle == nil {
			_ = syscall.Kill(p.pid, sig)
		}
	}
}

// there is an error once the process has been waited for.
func (p *Process) there() error {
	if p.handle != nil {
		return p.send(0, 0)
	}
	select {
	case <-p.exited:
		return unix.ESRCH
	default:
		return nil
	}
}

// watch waits for the end of the process.
func (p *Process) watch() {
	defer close(p.gone)
	if raw, err := p.handle.SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool { return isOver(int(fd)) })
	}
}

// isOver reports whether the process of a descriptor has ended.
func isOver(fd int) bool {
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(set, 0)
	return err == nil && n > 0
}

// ended reports whether the process has ended, though its parent may not have
// waited for it yet.
func (p *Process) ended() bool {
	if p.handle == nil {
		return p.there() != nil
	}
	raw, err := p.handle.SyscallConn()
	if err != nil {
		return true
	}
	over := true
	_ = raw.Control(func(fd uintptr) { over = isOver(int(fd)) })
	return over
}

// quit sends SIGQUIT to the process alone. A core dump would only take time.
func (p *Process) quit() {
	if p.there() != nil {
		return
	}
	noCore(p.pid)
	if p.handle == nil {
		_ = syscall.Kill(p.pid, syscall.SIGQUIT)
		return
	}
	_ = p.send(syscall.SIGQUIT, 0)
}

// Release closes the descriptor: from then on nothing is signalled.
func (p *Process) Release() {
	if p.handle != nil {
		_ = p.handle.Close()
		<-p.gone
	}
}
