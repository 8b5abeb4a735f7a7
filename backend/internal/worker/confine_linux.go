package worker

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const canConfine = true

// startConfined starts c so that neither it nor anything it starts can gain
// rights: no set-user-ID program raises them. The kernel keeps that promise per
// thread, and a child has it from the thread that forks it, so that thread is
// used once.
func startConfined(c *exec.Cmd) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = c.Start()
		}
		done <- err
	}()
	return <-done
}

func credential(u *User) *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}

// noCore has a process leave no core dump. One byte means none also where a
// program takes them.
func noCore(pid int) {
	var now unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &now) == nil {
		now.Cur = min(1, now.Max)
		_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &now, nil)
	}
}

// apply limits a child that has not been waited for. It has got nothing to do
// yet.
func (l Limits) apply(pid int) error {
	for _, r := range []struct {
		resource int
		value    uint64
	}{{unix.RLIMIT_DATA, l.Memory}, {unix.RLIMIT_NOFILE, l.OpenFiles}, {unix.RLIMIT_CPU, l.CPU}} {
		if r.value == 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Prlimit(pid, r.resource, nil, &now); err != nil {
			return err
		}
		limit := unix.Rlimit{Cur: min(r.value, now.Max), Max: min(r.value, now.Max)}
		if err := unix.Prlimit(pid, r.resource, &limit, nil); err != nil {
			return err
		}
	}
	return nil
}
