// Package orphans clears away processes that models have left behind.
package orphans

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/internal/procfs"
)

// orphanRound is how often an adopter looks for dead orphans.
const orphanRound = 5 * time.Second

// adopter waits for processes that the kernel gives to this one when their own
// parent ends: those that models leave and, where the server is process 1, all
// orphans of a container. Nobody else would, and each keeps its number taken until
// the container has none left. A model that starts daemons, or is killed with
// children of its own, makes them.
//
// It takes what has been dead in two rounds. Children of this process's own have
// somebody who waits for them, and are gone long before.
type adopter struct {
	parent int
	dead   map[process]bool
}

// process is a process for ever: its number may be given to another one.
type process struct {
	pid     int
	started uint64
}

// Adopt runs an adopter until stop is called, which ends what models have
// hidden from the end of their workers.
func Adopt() (stop func()) {
	if unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != nil && os.Getpid() != 1 {
		return func() {}
	}
	// What this process starts inherits the mark, from its first moment on. A worker
	// of another server, or what that has started, bears a lower one and keeps it.
	if mark, err := procfs.MarkOf(os.Getpid()); err == nil && mark > procfs.Base {
		_ = procfs.Mark(0, procfs.Base) // without it only what bears the mark of a worker is found
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		a := adopter{parent: os.Getpid()}
		for {
			select {
			case <-time.After(orphanRound): // no ticker: two ticks come at once where a machine stood still
				a.round()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
		endOrphans()
	}
}

// endOrphans kills the children of this process that models have left: they bear
// a mark below this process's own, or, what got away before it had one of its own,
// this process's. What a killed one leaves comes here too.
func endOrphans() {
	own, err := procfs.MarkOf(os.Getpid())
	if err != nil {
		return
	}
	deadline := time.Now().Add(orphanWait)
	for round, clean := 0, 0; round < orphanRounds && clean < cleanRounds; round++ {
		clean++
		for pid := range procfs.Numbers() {
			stat, err := procfs.StatOf(pid)
			if err != nil || stat.Parent != os.Getpid() {
				continue
			}
			// A child of this process keeps its number until this process has waited for it.
			mark, err := procfs.MarkOf(pid)
			if err != nil || mark > own || mark == own && own != procfs.Base {
				continue
			}
			if unix.Kill(pid, unix.SIGKILL) != nil {
				continue // it has become another user's: waiting for its end would take as long as it likes
			}
			clean = 0
			reap(pid, deadline)
		}
	}
}

// reap waits for a killed child, but not for one that the kernel does not let
// end, in a system call to a device or a file server, which would keep this process.
func reap(pid int, deadline time.Time) {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		var status unix.WaitStatus
		if got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil); !errors.Is(err, unix.EINTR) && (got != 0 || err != nil) ||
			time.Now().After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}

const (
	// orphanRounds bounds how often is looked for what killed orphans have left.
	orphanRounds = 100
	// orphanWait bounds how long is waited for the killed in all.
	orphanWait = 5 * time.Second
	// cleanRounds is how often in a row nothing must have been found: a process that
	// forks and ends, again and again, is seen by chance.
	cleanRounds = 3
)

// round waits for the children that were dead in the round before too.
func (a *adopter) round() {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil || info.Signo == 0 {
		a.dead = nil // no child is dead, as nearly always
		return
	}
	before := a.dead
	a.dead = map[process]bool{}
	for pid := range procfs.Numbers() {
		stat, err := procfs.StatOf(pid)
		if err != nil || stat.Parent != a.parent || !stat.Dead() {
			continue
		}
		it := process{pid, stat.Started}
		if !before[it] {
			a.dead[it] = true
			continue
		}
		var status unix.WaitStatus
		_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil) // whoever was faster
	}
}
