package processors

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const tasks = "/proc/self/task"

// waitTime returns how long the threads of the process have been ready to run
// without a core so far; 0 where the kernel does not say.
func waitTime() time.Duration {
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return 0
	}
	total := time.Duration(0)
	for _, t := range threads {
		// Nanoseconds on a core, nanoseconds waiting for one, turns.
		text, err := os.ReadFile(filepath.Join(tasks, t.Name(), "schedstat"))
		if fields := bytes.Fields(text); err == nil && len(fields) == 3 {
			ns, _ := strconv.ParseInt(string(fields[1]), 10, 64) // 0 for what is no number
			total += time.Duration(ns)
		}
	}
	return total
}
