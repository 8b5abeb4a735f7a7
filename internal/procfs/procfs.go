// Package procfs has what the kernel says of processes: which there are, in what
// state and whose children, and the mark that workers of models bear.
package procfs

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"strconv"
)

// Stat is what /proc/PID/stat says of a process.
type Stat struct {
	State  byte // 'R', 'S', ..., 'Z' for one that is dead and has not been waited for
	Parent int
	// Started is when, in the kernel's ticks since its own start: with its number it
	// names a process for ever.
	Started uint64
}

// Dead reports whether the process has ended.
func (s Stat) Dead() bool { return s.State == 'Z' || s.State == 'X' || s.State == 'x' }

var errStat = errors.New("no line of /proc/PID/stat")

// ParseStat reads the text of /proc/PID/stat.
func ParseStat(text []byte) (Stat, error) {
	// proc(5): the name stands in parentheses and may hold any, and spaces; behind it
	// the state, the parent, and as the twentieth field the start.
	behind := bytes.LastIndexByte(text, ')')
	if behind < 0 {
		return Stat{}, errStat
	}
	fields := bytes.Fields(text[behind+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return Stat{}, errStat
	}
	parent, err := strconv.ParseInt(string(fields[1]), 10, 32)
	if err != nil || parent < 0 {
		return Stat{}, errStat
	}
	started, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return Stat{}, errStat
	}
	return Stat{State: fields[0][0], Parent: int(parent), Started: started}, nil
}

// StatOf returns what the kernel says of a process; an error where there is none
// of that number.
func StatOf(pid int) (Stat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(text)
}

// someNames is how many processes are listed at once: those that come and go are
// looked at soon after.
const someNames = 128

// Numbers yields the numbers of all processes that can be seen, in the kernel's
// order. Where there is no /proc it yields none.
func Numbers() iter.Seq[int] {
	return func(yield func(int) bool) {
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer dir.Close()
		for {
			names, err := dir.Readdirnames(someNames)
			for _, name := range names {
				if name[0] < '1' || name[0] > '9' {
					continue
				}
				if pid, err := strconv.Atoi(name); err == nil && !yield(pid) {
					return
				}
			}
			if err != nil { // the end, or a /proc that is gone
				return
			}
		}
	}
}
