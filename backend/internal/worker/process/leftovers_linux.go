package process

import (
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/procfs"
)

// What a worker has started ends with the worker, also a daemon that has left its process
// group and its parents. Such a process is known by its mark (package procfs). A model can
// hide what it starts: that ends with the server (internal/cli/orphans).

// newTag returns the mark of a new worker. It returns 0, for none, in a process that is
// itself a worker, or was started by one: it bears the mark of that worker.
func newTag() uint64 {
	if procfs.Marked() {
		return 0
	}
	return procfs.NewMark()
}

// mark gives a worker of the server's own user its tag. It has got nothing to do
// yet.
func (p *Process) mark() {
	if p.tag != 0 {
		_ = procfs.Mark(p.pid, p.tag) // without it only its group ends with it
	}
}

const (
	// sweepClean is how often in a row nothing must have been found.
	sweepClean = 2
	// sweepTime bounds how long the end of the worker waits for processes that fork
	// faster than they are killed.
	sweepTime = 5 * time.Second
	// lookPart is how many processes are looked at in one go, in some 50 µs.
	lookPart = 32
	// sweepGone bounds how long a look counts as not clean because a process was
	// listed and had ended before its mark was read. On a busy machine processes of
	// others end so too.
	sweepGone = 500 * time.Millisecond
)

// sighting is the result of a look at one process.
type sighting uint8

const (
	other  sighting = iota // none of this worker's
	found                  // one of this worker's, alive or dead since the last look
	missed                 // gone before its mark was read
)

// sweeper finds and kills what one worker has left. A process that forks and ends, again
// and again, has another number at each look. But it is always the newest process, so a
// look begins with the processes that no look before has seen. Its dead processes show
// that it is there. A look is clean when it has found neither.
type sweeper struct {
	p      *Process
	others map[int]bool // seen by the last look; these come last
	dead   map[int]bool // whose trace has counted, and whose parent does not wait for them
}

// Sweep kills what bears the mark, once the worker has ended.
func (p *Process) Sweep() {
	p.sweeping.Lock()
	defer p.sweeping.Unlock()
	if p.swept || p.tag == 0 {
		return
	}
	defer processors.Hold()() // files are read
	b := sweeper{p: p, others: map[int]bool{}, dead: map[int]bool{}}
	begin := time.Now()
	for clean := 0; clean < sweepClean; clean++ {
		marked, gone := b.look()
		if marked || gone && time.Since(begin) < sweepGone {
			clean = -1
		}
		if marked && time.Since(begin) > sweepTime {
			if p.lines != nil && p.lines.Logger() != nil {
				p.lines.Logger().Warn("what the worker has started forks faster than it can be ended; it ends with the server", slog.Int("pid", p.pid))
			}
			break
		}
	}
	p.swept = p.over == nil || p.over()
}

// look kills what it finds. marked says that it has found something, gone that a process
// had ended before its mark was read.
func (b *sweeper) look() (marked, gone bool) {
	seen := make(map[int]bool, len(b.others))
	var fresh, known []int
	for pid := range procfs.Numbers() {
		if b.others[pid] {
			known = append(known, pid)
		} else {
			fresh = append(fresh, pid)
		}
	}
	slices.Reverse(fresh) // numbers rise
	for i, pid := range append(fresh, known...) {
		if i%lookPart == 0 {
			processors.GiveWay()
		}
		switch b.one(pid) {
		case found:
			marked = true
		case missed:
			gone = true
		case other:
			seen[pid] = true
		}
	}
	b.others = seen
	return marked, gone
}

// one kills a process that bears the mark.
func (b *sweeper) one(pid int) sighting {
	if pid == b.p.pid {
		return other
	}
	switch mark, err := procfs.MarkOf(pid); {
	case isGone(err):
		return missed
	case err != nil || mark != b.p.tag:
		return other
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return found // it was there
	}
	defer unix.Close(fd)
	// The number may mean another process since: this one is still the one that is open.
	if mark, err := procfs.MarkOf(pid); err != nil || mark != b.p.tag {
		return found
	}
	if isOver(fd) {
		return b.trace(pid)
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	return found
}

// trace counts a dead process once. Only this process can wait for a worker's orphan. If
// that were left to the adopter, orphans would fill the table of processes, and every
// look.
func (b *sweeper) trace(pid int) sighting {
	var status unix.WaitStatus
	if got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil); got == pid && err == nil {
		return found
	}
	if b.dead[pid] {
		return other
	}
	b.dead[pid] = true
	return found
}

// isGone reports whether the mark of a process could not be read because it has ended.
func isGone(err error) bool {
	return errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist)
}
