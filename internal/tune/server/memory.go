package server

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/procfs"
)

// Memory is what a server had while it was watched, in bytes; 0 where that cannot be seen.
type Memory struct {
	Used float64 // the most
	Free float64 // the least that the machine had left
}

// memoryInterval is how often memory is looked at: a look reads a file of each process.
const memoryInterval = 250 * time.Millisecond

// Watch begins to watch the memory of the server and its workers; the function that it
// returns ends that.
func (s *Server) Watch(ctx context.Context) func() Memory {
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	var m Memory
	see := func() {
		m.Used = max(m.Used, used(s.PID))
		if free := available(); m.Free == 0 || free < m.Free {
			m.Free = free
		}
	}
	group.Go(func() {
		t := time.NewTicker(memoryInterval)
		defer t.Stop()
		for {
			see()
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	})
	return func() Memory {
		stop()
		group.Wait()
		see()
		return m
	}
}

// used is the memory of a process and of all that descend from it, each page once.
func used(pid int) float64 {
	parents := map[int]int{}
	for n := range procfs.Numbers() {
		if s, err := procfs.StatOf(n); err == nil && !s.Dead() {
			parents[n] = s.Parent
		}
	}
	total := 0.0
	for n := range parents {
		for up := n; up > 1; up = parents[up] {
			if up == pid {
				total += proportional(n)
				break
			}
		}
	}
	return total
}

// proportional is a process's part of the memory that it has, what it shares divided
// by those that share it.
func proportional(pid int) float64 {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0
	}
	return kilobytes(text, "Pss:")
}

func available() float64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return kilobytes(text, "MemAvailable:")
}

func kilobytes(text []byte, name string) float64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				n, _ := strconv.ParseFloat(string(f[0]), 64)
				return n * 1024
			}
		}
	}
	return 0
}
