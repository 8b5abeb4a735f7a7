package linelog

import "strings"

// traceLines and traceBytes bound what is kept of a trace, from the innermost
// function on.
const traceLines, traceBytes = 16, 2 << 10

// Traced has the lines that come be taken for a trace where they look like one.
func (l *Log) Traced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tracing = true
}

// traceLineLocked reports whether a line is part of a trace, and keeps it if it
// says something: those of the import machinery and of the worker itself do not.
func (l *Log) traceLineLocked(text string) bool {
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
	if len(l.stack) < traceLines && len(frame) < traceBytes && !strings.HasPrefix(frame, "\"<frozen ") &&
		!strings.Contains(frame, "/neso_worker/") && !strings.Contains(frame, "/neso_runtime/") {
		l.stack = append(l.stack, frame)
	}
	return true
}

// Trace returns the lines of the trace, one function in each, the innermost
// first.
func (l *Log) Trace() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.stack, "\n")
}
