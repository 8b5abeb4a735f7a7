package nesotest

import (
	"strings"
	"sync"
)

// Log collects what is written to it, a server's log for example, which a test
// reads while the server goes on. That fake time passes does not order the two
// for the race detector; this does. The zero value is empty.
type Log struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements [io.Writer]; it never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
