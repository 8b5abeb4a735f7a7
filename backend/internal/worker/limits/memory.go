package limits

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// OwnMemory is how much writable memory of its own a process has, what
// WORKER_MEMORY_BYTES bounds; 0 where that is not known.
func OwnMemory(pid int) uint64 { return memoryOf(pid, "VmData:") }

// ResidentMemory returns how many bytes of memory a process has, what it shares
// with others too; 0 where that is not known.
func ResidentMemory(pid int) uint64 {
	// The text of status takes the kernel ten times as long.
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text) // in pages: all, resident, ...
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(string(fields[1]), 10, 40)
	return n * uint64(os.Getpagesize())
}

// memoryOf returns one of the sizes in /proc/PID/status in bytes, 0 where it is not
// known.
func memoryOf(pid int, line string) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	field := []byte(line)
	for line := range bytes.Lines(text) {
		if size, ok := bytes.CutPrefix(line, field); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(string(size)), " kB"), 10, 53)
			return n << 10
		}
	}
	return 0
}
