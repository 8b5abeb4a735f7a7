// Package logging owns the server's log: a slog handler that prints Triton's
// line formats, or JSON, and whose levels and format change at run time. Open
// logging.go first, then format.go.
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
)

// LevelVerbose is the slog level of verbose messages; deeper ones are below.
// Verbose(1) is logged at level 1 and up, Verbose(2) at 2 and up.
const LevelVerbose = slog.LevelDebug

// Verbose returns the slog level of verbose messages of depth n ≥ 1.
func Verbose(n int) slog.Level { return LevelVerbose - slog.Level(n-1) }

// The formats.
const (
	FormatDefault = "default"
	FormatISO8601 = "ISO8601"
	FormatJSON    = "json"
)

// Settings are what can be read and changed at run time. File is fixed at
// start.
type Settings struct {
	File                 string
	Info, Warning, Error bool
	Verbose              int
	Format               string
}

// DefaultSettings are Triton's.
func DefaultSettings() Settings {
	return Settings{Info: true, Warning: true, Error: true, Format: FormatDefault}
}

// Check returns an error for a setting that has no meaning.
func (s Settings) Check() error {
	switch s.Format {
	case FormatDefault, FormatISO8601, FormatJSON:
	default:
		return fmt.Errorf("invalid argument for log_format, got: %s", s.Format)
	}
	if s.Verbose < 0 {
		return fmt.Errorf("invalid argument for log_verbose_level, got: %d", s.Verbose)
	}
	return nil
}

// Log is the server's log. Its methods are safe for concurrent use.
type Log struct {
	settings atomic.Pointer[Settings]
	escape   bool
	pid      int

	mu    sync.Mutex // serialises lines
	out   io.Writer
	file  *os.File
	lines []byte
	tail  *tail // nil: not kept
}

// Open returns a log that writes to s.File, or to fallback when that is empty.
func Open(s Settings, fallback io.Writer) (*Log, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	l := &Log{escape: os.Getenv("TRITON_SERVER_ESCAPE_LOG_MESSAGES") != "0", pid: os.Getpid(), out: fallback}
	if s.File != "" {
		f, err := os.OpenFile(s.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("failed to open log file: %w", err)
		}
		l.file, l.out = f, f
	}
	l.settings.Store(&s)
	return l, nil
}

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger { return slog.New(&handler{log: l}) }

// Settings returns the present settings.
func (l *Log) Settings() Settings { return *l.settings.Load() }

// Set changes the settings, except the file.
func (l *Log) Set(s Settings) error {
	if err := s.Check(); err != nil {
		return err
	}
	s.File = l.Settings().File
	l.settings.Store(&s)
	return nil
}

// Print writes text as it is, after the lines before it; for tables.
func (l *Log) Print(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.out, text) // there is nowhere else to report to
}

// Close closes the log file, if there is one.
func (l *Log) Close() error {
	if l.file != nil {
		return l.file.Close()
	}
	return nil
}

func (s *Settings) enabled(level slog.Level) bool {
	switch {
	case level >= slog.LevelError:
		return s.Error
	case level >= slog.LevelWarn:
		return s.Warning
	case level >= slog.LevelInfo:
		return s.Info
	default:
		return int(LevelVerbose-level) < s.Verbose
	}
}
