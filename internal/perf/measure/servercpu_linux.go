package measure

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks is how the kernel counts processor time for user space: hundredths of a second.
const ticks = 100

// ServerProcess finds the process that listens on a port of this machine; 0 if there
// is none that can be seen.
func ServerProcess(address string) int {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	if ips, err := net.LookupIP(host); err != nil || len(ips) == 0 || !ips[0].IsLoopback() {
		return 0
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], ":"+strings.ToUpper(hex4(uint16(n)))) {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && sockets[to] {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			return pid
		}
	}
	return 0
}

func hex4(n uint16) string {
	const hex = "0123456789abcdef"
	return string([]byte{hex[n>>12], hex[n>>8&15], hex[n>>4&15], hex[n&15]})
}

// ServerCPU is the processor time of a process and all that descend from it, in
// seconds, -1 where it cannot be seen.
func ServerCPU(pid int) float64 {
	if pid == 0 {
		return -1
	}
	type process struct {
		parent int
		time   float64
	}
	all := map[int]process{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// The name stands in brackets and may have any character.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 15 {
			continue
		}
		at := func(i int) float64 { v, _ := strconv.ParseFloat(string(fields[i]), 64); return v }
		id, _ := strconv.Atoi(strings.Split(path, "/")[2])
		// User and system time, and those of children that have ended.
		all[id] = process{int(at(1)), (at(11) + at(12) + at(13) + at(14)) / ticks}
	}
	if _, ok := all[pid]; !ok {
		return -1
	}
	total := 0.0
	for id, p := range all {
		for up := id; up > 1; up = all[up].parent {
			if up == pid {
				total += p.time
				break
			}
		}
	}
	return total
}
