package linelog

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

const (
	// lineLimit is the longest line that stays in one piece.
	lineLimit = 16 << 10
	// tailLines and tailBytes bound what is kept of the output for the day the
	// worker dies.
	tailLines, tailBytes = 5, 1 << 10
	// crashLines bounds the stacks that a crash of Go prints after its reason.
	crashLines = 4096
)

// Log writes what a worker prints into the log, line by line, and
// remembers the last lines.
type Log struct {
	logger *slog.Logger
	rate   *Rate  // nil: everything
	part   []byte // a line without its end
	mu     sync.Mutex
	tail   []string
	// crash is why Go ended the process, as it said before the stacks of all its
	// goroutines, after is how many lines ago.
	crash string
	after int
	// tracing says that a trace is awaited, stack is what came of it.
	tracing bool
	stack   []string
}

// New returns one that writes to a logger, which may be nil.
func New(logger *slog.Logger) *Log {
	return &Log{logger: logger, rate: NewRate(logger)}
}

// Logger is what the lines go to, or nil.
func (l *Log) Logger() *slog.Logger { return l.logger }

// Rate bounds the lines, and whatever else of the worker is to share the bound.
func (l *Log) Rate() *Rate { return l.rate }

// Copy reads until the end of the pipe.
func (l *Log) Copy(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		l.write(buf[:n])
		if err != nil {
			if len(l.part) > 0 {
				l.line(l.part)
				l.part = nil
			}
			l.rate.End()
			return
		}
	}
}

func (l *Log) write(b []byte) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			l.part = append(l.part, b...)
			for len(l.part) > lineLimit {
				l.line(l.part[:lineLimit])
				l.part = append(l.part[:0], l.part[lineLimit:]...)
			}
			return
		}
		line := b[:i]
		if len(l.part) > 0 {
			line = append(l.part, line...)
		}
		for len(line) > lineLimit {
			l.line(line[:lineLimit])
			line = line[lineLimit:]
		}
		l.line(line)
		l.part = l.part[:0]
		b = b[i+1:]
	}
}

func (l *Log) line(b []byte) {
	text := strings.ToValidUTF8(strings.TrimRight(string(b), "\r"), "\uFFFD")
	l.mu.Lock()
	part := l.traceLineLocked(text)
	l.mu.Unlock()
	if part {
		return
	}
	if l.logger != nil && l.rate.Allows(len(text)) {
		l.logger.LogAttrs(context.Background(), slog.LevelInfo, text) //nolint:sloglint // what the worker prints is the message
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.HasPrefix(text, "fatal error: ") || strings.HasPrefix(text, "panic: ") {
		l.crash, l.after = text, 0
	} else if l.after++; l.after > crashLines {
		l.crash = ""
	}
	if len(l.tail) == tailLines {
		l.tail = append(l.tail[:0], l.tail[1:]...)
	}
	l.tail = append(l.tail, text)
}

// last returns the last lines, at most tailBytes of them, below what Go said
// when it ended the process: the stacks after that push it out of them.
func (l *Log) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var crash string
	if l.crash != "" && l.after >= len(l.tail) {
		crash = strings.ToValidUTF8(l.crash[:min(len(l.crash), tailBytes/2)], "") + "\n…\n"
	}
	s, room := strings.Join(l.tail, "\n"), tailBytes-len(crash)
	if len(s) > room {
		s = "…" + strings.ToValidUTF8(s[len(s)-room:], "")
	}
	return crash + s
}

// WithOutput adds the last lines of a process to what happened to it.
func WithOutput(what string, lines *Log) string {
	last := lines.last()
	if last == "" {
		return what
	}
	return what + "; its last output:\n" + last
}
