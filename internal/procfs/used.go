package procfs

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// Used is what a process has used.
type Used struct {
	// CPU is user and system time.
	CPU time.Duration
	// Resident is its memory in bytes, what it shares with others too.
	Resident uint64
	// Threads it has.
	Threads int
}

// tick is the unit of times in /proc: the kernel's USER_HZ, which is 100 wherever Go
// runs.
const tick = 10 * time.Millisecond

// UsedBy returns what the kernel says of a process.
func UsedBy(pid int) (Used, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Used{}, err
	}
	return parseUsed(text)
}

// parseUsed reads the text of /proc/PID/stat; proc(5) numbers the fields.
func parseUsed(text []byte) (u Used, err error) {
	behind := bytes.LastIndexByte(text, ')')
	if behind < 0 {
		return u, errStat
	}
	fields := bytes.Fields(text[behind+1:])
	if len(fields) < 22 {
		return u, errStat
	}
	number := func(field int) (n uint64) {
		n, bad := strconv.ParseUint(string(fields[field-3]), 10, 63)
		if bad != nil {
			err = errStat
		}
		return n
	}
	u.CPU = time.Duration(number(14)+number(15)) * tick
	u.Threads, u.Resident = int(number(20)&0x7fffffff), number(24)*uint64(os.Getpagesize())
	return u, err
}
