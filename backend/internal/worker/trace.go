package worker

import (
	"strings"
	"time"
)

const (
	// traceWait is how long a worker may take to say where it is. One that cannot
	// run, or that has taken the signal for itself, is killed then.
	traceWait = 5 * time.Second
	// traceLines and traceBytes bound what is kept of what it says, from the
	// innermost function on.
	traceLines, traceBytes = 16, 2 << 10
)

// trace has a Python worker write down where its main thread is, which ends the
// process, and returns that, or "".
func (p *process) trace() string {
	p.killed.Store(true)
	p.lines.traced()
	p.quit()
	p.await(traceWait)
	return p.lines.trace()
}

// traced has the lines that come be taken for a trace where they look like one.
func (l *lineLog) traced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tracing = true
}

// traceLineLocked reports whether a line is part of a trace, and keeps it if it
// says something: those of the import machinery and of the worker itself do not.
func (l *lineLog) traceLineLocked(text string) bool {
	if !l.tracing {
		return false
	}
	if strings.HasPrefix(text, "Stack (most recent call first)") || strings.HasPrefix(text, "Current thread ") {
		return true
	}
	frame, ok := strings.CutPrefix(text, "  File ")
	if !ok {
		return text == "  ..."
	}
	if len(l.stack) < traceLines && len(frame) < traceBytes && !strings.HasPrefix(frame, "\"<frozen ") && !strings.Contains(frame, "/neso_worker/") {
		l.stack = append(l.stack, frame)
	}
	return true
}

// trace returns the lines of the trace, one function in each, the innermost
// first.
func (l *lineLog) trace() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.stack, "\n")
}
