package startpages

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Release takes the pages of the program and of its libraries out of the
// process, most of which only the start has needed: what registers itself, reads
// options, parses and optimizes models. They stay in the system's page cache, from
// where what is used comes back, sixteen pages at a fault; the first request takes
// 0.7 ms longer for it. Otherwise they count as resident as long as the server
// lives, and by that the system chooses whom it ends when memory runs out.
func Release() error {
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer file.Close()
	return startPages(file, func(start, end uintptr) {
		// What the system refuses, such as locked memory, stays.
		_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED)
	})
}

// startPages calls drop with the mappings of code and constants that lie before the
// data of their file. Pages that the process has changed, such as relocated
// addresses, are its own, in memory or swapped out, and would be lost: their
// mappings are left. So is what no data follows. That may be a file of weights,
// or a library that another thread is loading: the loader maps all of it as
// constants first and puts data, which it then changes, in the place of the end.
func startPages(smaps io.Reader, drop func(start, end uintptr)) error {
	type mapping struct {
		start, end uintptr
		file       string // device and inode; "" for memory without a file
		private    bool
		constant   bool // not writable
		changed    bool
	}
	var at mapping
	var before []mapping // of the same file, without data between
	flush := func() {
		switch {
		case at.file == "" || len(before) > 0 && before[0].file != at.file:
			before = before[:0]
		case !at.constant || at.changed:
			for _, m := range before {
				drop(m.start, m.end)
			}
			before = before[:0]
		}
		if at.file != "" && at.private && at.constant && !at.changed {
			before = append(before, at)
		}
	}
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case name == "Anonymous:" || name == "Swap:":
			at.changed = at.changed || strings.TrimSpace(rest) != "0 kB"
		case !strings.HasSuffix(name, ":"):
			flush()
			at = mapping{}
			var permissions, offset, device string
			var inode uint64
			n, _ := fmt.Sscanf(name, "%x-%x", &at.start, &at.end)
			m, _ := fmt.Sscan(rest, &permissions, &offset, &device, &inode)
			if n == 2 && m == 4 && inode > 0 && len(permissions) == 4 {
				at.file = fmt.Sprint(device, " ", inode)
				at.constant, at.private = permissions[1] == '-', permissions[3] == 'p'
			}
		}
	}
	flush()
	return lines.Err()
}
