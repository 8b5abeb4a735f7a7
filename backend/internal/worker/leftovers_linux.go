package worker

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// What a worker has started ends with it, also what has left its process group
// and its parents: a daemon of a model. Such a process is known by a mark that
// everything inherits through fork, exec and setsid: a limit of its own on the
// real-time CPU time, centuries, which bounds nothing. A model can lower it and
// so hide what it starts; that ends with the server.

// tags tells the workers of this server from each other and from those of others:
// 2^60 µs and more, 36 random bits, 24 that count.
var tags = func() *atomic.Uint64 {
	var t atomic.Uint64
	t.Store(1<<60 | rand.Uint64N(1<<36)<<24)
	return &t
}()

func newTag() uint64 { return tags.Add(1) }

// mark gives a worker its tag. It has got nothing to do yet.
func (p *process) mark() {
	limit := unix.Rlimit{Cur: p.tag, Max: p.tag}
	_ = unix.Prlimit(p.pid, unix.RLIMIT_RTTIME, &limit, nil) // without it only its group ends with it
}

// markProgram has an interpreter mark itself: of a process of another user the
// server may not change the limits where root lacks CAP_SYS_RESOURCE, as in
// containers.
func markProgram(tag uint64) string {
	return fmt.Sprintf("import resource\nresource.setrlimit(%d, (%d, %d))\n", unix.RLIMIT_RTTIME, tag, tag)
}

// marked reports whether this process bears a mark: it is a worker.
func marked() bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_RTTIME, &limit) == nil && limit.Cur>>60 == 1
}

// sweepRounds bounds how often is looked for what has been forked meanwhile.
const sweepRounds = 20

// sweep kills what bears the mark, when the worker has ended.
func (p *process) sweep() {
	for range sweepRounds {
		found := false
		for _, pid := range processNumbers() {
			found = p.sweepOne(pid) || found
		}
		if !found {
			return
		}
	}
}

// sweepOne kills a process that bears the mark and reports whether it did.
func (p *process) sweepOne(pid int) bool {
	if pid == p.pid || tagOf(pid) != p.tag {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	// The number may mean another process since: this one is still the one that is open.
	if tagOf(pid) != p.tag {
		return false
	}
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(set, 0); err != nil || n > 0 { // dead already
		return false
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// tagOf returns the mark of a process, or what else it has for a limit.
func tagOf(pid int) uint64 {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit)
	if errors.Is(err, unix.EPERM) { // of another user, where root has not all rights
		return tagInText(pid)
	}
	if err != nil {
		return 0
	}
	return limit.Cur
}

func tagInText(pid int) uint64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("Max realtime timeout"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(string(fields[0]), 10, 64)
	return n
}

// processNumbers returns the numbers of all processes that can be seen.
func processNumbers() []int {
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
