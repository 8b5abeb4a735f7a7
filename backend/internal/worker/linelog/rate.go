package linelog

import (
	"log/slog"
	"sync"
	"time"
)

// A model that prints in a loop must not fill the disk of the log, nor keep the server
// busy. These constants say how much its worker may write in the long run, and how much
// at once.
const (
	logLines, logLinesAtOnce = 1_000, 10_000      // a second
	logBytes, logBytesAtOnce = 256 << 10, 4 << 20 // a second
)

// logBudget is the arithmetic of Rate: what may be written, and what was not.
type logBudget struct {
	lines, bytes float64 // left
	at           time.Time
	dropping     bool
	dropped      int
}

// take reports whether a line of so many bytes may be written at a time. After a line
// that may not, no line may until there is a second's worth again: a log of every other
// line is of no use to anybody.
func (b *logBudget) take(now time.Time, size int) bool {
	if b.at.IsZero() {
		b.lines, b.bytes = logLinesAtOnce, logBytesAtOnce
	} else if d := now.Sub(b.at).Seconds(); d > 0 {
		b.lines = min(logLinesAtOnce, b.lines+d*logLines)
		b.bytes = min(logBytesAtOnce, b.bytes+d*logBytes)
	}
	b.at = now
	if b.dropping {
		b.dropping = b.lines < logLines || b.bytes < logBytes
	} else {
		b.dropping = b.lines < 1 || b.bytes < float64(size)
	}
	if b.dropping {
		b.dropped++
		return false
	}
	b.lines--
	b.bytes -= float64(size)
	return true
}

// Rate bounds what one worker writes to the log: what it prints, and the
// records that its model sends.
type Rate struct {
	logger *slog.Logger

	mu     sync.Mutex
	budget logBudget
	told   *time.Timer // will tell of what was dropped; nil when nothing was
}

// NewRate returns one for a logger, which may be nil: then it allows all.
func NewRate(logger *slog.Logger) *Rate { return &Rate{logger: logger} }

// tellAfter is how long lines are dropped before the log says how many.
const tellAfter = time.Second

// Allows reports whether a line of so many bytes may be written. nil allows all.
func (r *Rate) Allows(size int) bool {
	if r == nil || r.logger == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ok := r.budget.take(time.Now(), size)
	if !ok && r.told == nil {
		r.told = time.AfterFunc(tellAfter, r.tell)
	}
	return ok
}

// tell writes how many lines were dropped since it did last.
func (r *Rate) tell() {
	r.mu.Lock()
	dropped := r.budget.dropped
	r.budget.dropped = 0
	if r.told != nil {
		r.told.Stop()
		r.told = nil
	}
	r.mu.Unlock()
	if dropped > 0 {
		r.logger.Warn("a model writes more than the log takes, lines were dropped",
			slog.Int("dropped", dropped), slog.Int("lines_per_second", logLines), slog.Int("bytes_per_second", logBytes))
	}
}

// End tells of what was dropped last.
func (r *Rate) End() {
	if r != nil && r.logger != nil {
		r.tell()
	}
}
