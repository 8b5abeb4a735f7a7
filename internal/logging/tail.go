package logging

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// mostLines and mostLine bound what is kept of the log: lines, and bytes of each.
	mostLines = 500
	mostLine  = 2 << 10
)

// Line is one of the log.
type Line struct {
	// Number grows by one with each line.
	Number uint64
	At     time.Time
	Level  slog.Level
	// Text is the line as it was written, without its end; long ones are cut.
	Text string
}

// tail is the ring of the last lines. Its slots keep their memory, so that a line
// costs a copy.
type tail struct {
	mu    sync.Mutex
	last  uint64 // number of the line that was added last
	lines [mostLines]struct {
		at    time.Time
		level slog.Level
		text  []byte
	}
}

func (t *tail) add(at time.Time, level slog.Level, line []byte) {
	for len(line) > 0 && line[len(line)-1] == '\n' {
		line = line[:len(line)-1]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	l := &t.lines[t.last%mostLines]
	l.at, l.level, l.text = at, level, append(l.text[:0], line[:min(len(line), mostLine)]...)
}

// KeepTail keeps the last lines from now on, for Tail.
func (l *Log) KeepTail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail == nil {
		l.tail = &tail{}
	}
}

// Tail returns the lines that are kept with a number above since, the oldest first.
func (l *Log) Tail(since uint64) []Line {
	l.mu.Lock()
	t := l.tail
	l.mu.Unlock()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last > mostLines {
		since = max(since, t.last-mostLines)
	}
	var lines []Line
	for n := since + 1; n <= t.last; n++ {
		k := &t.lines[n%mostLines]
		lines = append(lines, Line{Number: n, At: k.at, Level: k.level, Text: string(k.text)})
	}
	return lines
}
