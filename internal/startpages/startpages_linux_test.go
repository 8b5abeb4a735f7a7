package startpages

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestPagesOfTheStart(t *testing.T) {
	before := residentFilePages(t)
	if err := Release(); err != nil {
		t.Fatal(err)
	}
	if after := residentFilePages(t); after >= before {
		t.Errorf("%d KiB of files are resident, before %d", after, before)
	}
}

func residentFilePages(t *testing.T) (kib int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "RssFile:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Skipf("this system does not say how much of files is resident: %v", err)
	}
	return kib
}

// What the process has changed would be lost, and what is being loaded or is no
// program has to stay.
func TestStartPages(t *testing.T) {
	entry := func(line, anonymous, swap string) string {
		return line + "\nRss: 8 kB\nAnonymous: " + anonymous + " kB\nSwap: " + swap + " kB\nVmFlags: rd mr\n"
	}
	for name, c := range map[string]struct{ smaps, want string }{
		"a program": {
			entry("1000-2000 r-xp 00000000 08:01 7    /neso", "0", "0") + entry("2000-3000 r--p 00001000 08:01 7    /neso", "0",
				"0") + entry("3000-4000 rw-p 00002000 08:01 7    /neso", "4", "0") + entry("4000-5000 rw-p 00000000 00:00 0", "4", "0"),
			"1000-2000 2000-3000 ",
		},
		"relocated addresses in memory": {
			entry("1000-2000 r--p 00000000 08:01 7    /l.so", "0", "0") + entry("2000-3000 r--p 00001000 08:01 7    /l.so", "4",
				"0") + entry("3000-4000 rw-p 00002000 08:01 7    /l.so", "4", "0"),
			"1000-2000 ",
		},
		"relocated addresses that are swapped out": {
			entry("1000-2000 r--p 00000000 08:01 7    /l.so", "0", "0") + entry("2000-3000 r--p 00001000 08:01 7    /l.so", "0",
				"4") + entry("3000-4000 rw-p 00002000 08:01 7    /l.so", "0", "4"),
			"1000-2000 ",
		},
		"a library that is being loaded": {
			entry("1000-2000 r--p 00000000 08:01 7    /l.so", "0", "0") + entry("2000-3000 r-xp 00001000 08:01 7    /l.so", "0",
				"0") + entry("3000-6000 r--p 00002000 08:01 7    /l.so", "0", "0") + entry("6000-7000 rw-p 00000000 08:01 8    /m.so", "4", "0"),
			"",
		},
		"its second part of data is not in place yet": {
			entry("1000-2000 r--p 00000000 08:01 7    /l.so", "0", "0") + entry("2000-3000 rw-p 00001000 08:01 7    /l.so", "0",
				"0") + entry("3000-6000 r--p 00002000 08:01 7    /l.so", "0", "0"),
			"1000-2000 ",
		},
		"a file of weights": {entry("1000-9000 r--p 00000000 08:01 7    /weights", "0", "0"), ""},
		"shared": {
			entry("1000-2000 r--s 00000000 08:01 7    /x", "0", "0") + entry("2000-3000 rw-s 00001000 08:01 7    /x", "0", "0"),
			"",
		},
		"no smaps": {"- -\n:\nAnonymous:\n\n1-z r--p\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := startPages(strings.NewReader(c.smaps), func(start, end uintptr) { got += fmt.Sprintf("%x-%x ", start, end) }); err != nil {
				t.Error(err)
			}
			if got != c.want {
				t.Errorf("dropped %q, want %q", got, c.want)
			}
		})
	}
}
