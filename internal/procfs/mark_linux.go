package procfs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A mark is a limit of a process on its real-time CPU time: centuries, which bounds
// nothing, but everything inherits it through fork, exec and setsid, and nobody can
// raise it again without CAP_SYS_RESOURCE. So what a worker has started is known by
// the worker's mark, wherever it has gone. A model can lower it, and so hide what it
// starts from the end of its worker, but not be rid of it.

// Base is the mark of a server, above those of all workers: what it starts has at
// least this one.
const Base = 1 << 61

// marks tells the workers of this server from each other and from those of others:
// 2^60 µs and more, 36 random bits, 24 that count down.
var marks = func() *atomic.Uint64 {
	var m atomic.Uint64
	m.Store(1<<60 | rand.Uint64N(1<<36)<<24 | (1<<24 - 1))
	return &m
}()

// NewMark returns a mark that no other worker has, and that one with an older mark
// can take.
func NewMark() uint64 { return marks.Add(^uint64(0)) }

// Marked reports whether this process is a worker, or started by one.
func Marked() bool {
	m, err := MarkOf(os.Getpid())
	return err == nil && m>>60 == 1
}

// Mark gives a process its mark, 0 this one. It fails for a process of another
// user where root lacks CAP_SYS_RESOURCE, as in containers.
func Mark(pid int, mark uint64) error {
	return unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: mark, Max: mark}, nil)
}

// MarkOf returns the mark of a process, or whatever else it has for a limit: that
// which it cannot raise.
func MarkOf(pid int) (uint64, error) {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit)
	if errors.Is(err, unix.EPERM) { // of another user, where root has not all rights
		return markInText(pid)
	}
	return limit.Max, err
}

func markInText(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0, err
	}
	return parseLimits(text)
}

var errLimits = errors.New("no text of /proc/PID/limits")

// parseLimits reads the text of /proc/PID/limits.
func parseLimits(text []byte) (uint64, error) {
	_, rest, _ := bytes.Cut(text, []byte("Max realtime timeout "))
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0, errLimits
	}
	if string(fields[1]) == "unlimited" {
		return unix.RLIM_INFINITY, nil
	}
	hard, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0, errLimits
	}
	return hard, nil
}
