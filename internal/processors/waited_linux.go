package processors

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

const tasks = "/proc/self/task/"

// waitTime returns how long the threads of the process have been ready to run
// without a core so far; 0 where the kernel does not say. It is asked twenty times
// a second, for each thread: package os would take twice the calls of the system.
func waitTime() time.Duration {
	threads, err := os.Open(tasks)
	if err != nil {
		return 0
	}
	names, err := threads.Readdirnames(-1)
	_ = threads.Close()
	if err != nil {
		return 0
	}
	total := time.Duration(0)
	var buf [64]byte
	for _, name := range names {
		fd, err := syscall.Open(tasks+name+"/schedstat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue // it has ended
		}
		n, err := syscall.Read(fd, buf[:])
		_ = syscall.Close(fd)
		// Nanoseconds on a core, nanoseconds waiting for one, turns.
		if fields := bytes.Fields(buf[:max(n, 0)]); err == nil && len(fields) == 3 {
			ns, _ := strconv.ParseInt(string(fields[1]), 10, 64) // 0 for what is no number
			total += time.Duration(ns)
		}
	}
	return total
}
