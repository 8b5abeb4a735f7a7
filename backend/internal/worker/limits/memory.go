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
func ResidentMemory(pid int) uint64 { return memoryOf(pid, "VmRSS:") }

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
