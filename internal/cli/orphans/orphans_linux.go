// Package orphans clears away processes that models have left behind.
package orphans

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
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
	dead   map[string]bool // by number and time of start
}

// Adopt runs an adopter until stop is called, which ends what models have
// hidden from the end of their workers.
func Adopt() (stop func()) {
	if unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != nil && os.Getpid() != 1 {
		return func() {}
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

// endOrphans kills the children of this process that models have left: workers,
// and what they start, have a limit on their real-time CPU time that marks them
// (backend/internal/worker). They can lower it, and so hide from the end of their
// worker, but not be rid of it. What a killed one leaves comes here too.
func endOrphans() {
	own, err := markOf(os.Getpid())
	if err != nil {
		return
	}
	for range orphanRounds {
		found := false
		for _, pid := range processes() {
			stat, ok := statOf(pid)
			if !ok || stat.parent != strconv.Itoa(os.Getpid()) {
				continue
			}
			// A child of this process keeps its number until this process has waited for it.
			if mark, err := markOf(pid); err != nil || mark >= own {
				continue
			}
			if unix.Kill(pid, unix.SIGKILL) != nil {
				continue // it has become another user's: waiting for its end would take as long as it likes
			}
			found = true
			var status unix.WaitStatus
			_, _ = unix.Wait4(pid, &status, 0, nil)
		}
		if !found {
			return
		}
	}
}

// orphanRounds bounds how often is looked for what killed orphans have left.
const orphanRounds = 100

func markOf(pid int) (uint64, error) {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit)
	return limit.Max, err
}

// round waits for the children that were dead in the round before too.
func (a *adopter) round() {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil || info.Signo == 0 {
		a.dead = nil // no child is dead, as nearly always
		return
	}
	before := a.dead
	a.dead = map[string]bool{}
	for _, pid := range processes() {
		started, dead := deadChild(pid, a.parent)
		if !dead {
			continue
		}
		key := strconv.Itoa(pid) + " " + started
		if !before[key] {
			a.dead[key] = true
			continue
		}
		var status unix.WaitStatus
		_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil) // whoever was faster
	}
}

// processes returns the numbers of all processes that can be seen.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// deadChild returns whether pid is a zombie whose parent is parent, and when it
// started, in the kernel's ticks.
func deadChild(pid, parent int) (started string, dead bool) {
	stat, ok := statOf(pid)
	if !ok || stat.state != "Z" || stat.parent != strconv.Itoa(parent) {
		return "", false
	}
	return stat.started, true
}

// stat is what the kernel says of a process.
type stat struct{ state, parent, started string }

func statOf(pid int) (stat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	// proc(5): the name stands in parentheses and may hold some; behind it the
	// state, the parent, and as the twentieth field the start.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return stat{}, false
	}
	return stat{string(fields[0]), string(fields[1]), string(fields[19])}, true
}
