package hostmemory

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// Available returns how many bytes this process can have: the machine's
// memory, or less where a control group bounds it.
func Available() int64 {
	total := int64(fallback)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if kb, ok := memTotal(text); ok {
			total = kb << 10
		}
	}
	if text, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		for _, file := range limitFiles(text) {
			if limit, ok := readLimit(file); ok {
				total = min(total, limit)
			}
		}
	}
	return total
}

// memTotal finds the machine's memory in kB in the text of /proc/meminfo.
func memTotal(meminfo []byte) (int64, bool) {
	for line := range bytes.Lines(meminfo) {
		if rest, ok := bytes.CutPrefix(line, []byte("MemTotal:")); ok {
			fields := strings.Fields(string(rest))
			if len(fields) == 0 {
				return 0, false
			}
			kb, err := strconv.ParseInt(fields[0], 10, 64)
			return kb, err == nil && kb > 0 && kb < math.MaxInt64>>10
		}
	}
	return 0, false
}

// limitFiles returns the files that may hold a limit, from the text of
// /proc/self/cgroup: those of the process's own group and of all groups above
// it, version 2 and 1.
func limitFiles(cgroup []byte) []string {
	var files []string
	sc := bufio.NewScanner(bytes.NewReader(cgroup))
	for sc.Scan() {
		parts := strings.SplitN(sc.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var root, name string
		switch {
		case parts[0] == "0" && parts[1] == "":
			root, name = "/sys/fs/cgroup", "memory.max"
		case hasWord(parts[1], "memory"):
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// A container sees its own group as the root, whatever the path says.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			files = append(files, path.Join(root, dir, name))
			if dir == "/" {
				break
			}
		}
	}
	return files
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// readLimit reads one limit; "max" and unreadable files are none.
func readLimit(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n > 0
}
