package neso

import (
	"cmp"
	"io"
	"log/slog"
	"os"

	"github.com/nesoserve/neso/internal/logging"
)

// LogSettings say what a [Log] shows, how and where. The zero value shows all
// but verbose messages, in Triton's format, on standard error.
type LogSettings struct {
	// File takes the lines, after what it holds; empty means Output.
	File string
	// Output takes them where there is no File; default os.Stderr.
	Output io.Writer
	// Format is "default" (Triton's lines), "ISO8601" (the same with other times)
	// or "json" (an object a line); default "default".
	Format string
	// Verbose shows verbose messages down to this depth; default 0, none. From 1 on
	// each request has a line.
	Verbose int
	// NoInfo, NoWarnings and NoErrors leave out the messages of a level.
	NoInfo, NoWarnings, NoErrors bool
}

// Log is a log in Triton's formats whose settings change while it is written.
// Clients of a server that has it read and change them, all but the place. Its
// methods are safe for concurrent use.
type Log struct{ log *logging.Log }

// OpenLog opens a log. The caller closes it, after the servers that write to it.
func OpenLog(s LogSettings) (*Log, error) {
	var output io.Writer = os.Stderr
	if s.Output != nil {
		output = s.Output
	}
	l, err := logging.Open(logging.Settings{
		File: s.File, Format: cmp.Or(s.Format, logging.FormatDefault), Verbose: s.Verbose,
		Info: !s.NoInfo, Warning: !s.NoWarnings, Error: !s.NoErrors,
	}, output)
	if err != nil {
		return nil, err
	}
	return &Log{l}, nil
}

// Logger returns a logger that writes to the log.
func (l *Log) Logger() *slog.Logger { return l.log.Logger() }

// Format returns the present format.
func (l *Log) Format() string { return l.log.Settings().Format }

// Settings returns what Set has set, or OpenLog; Output is nil.
func (l *Log) Settings() LogSettings {
	s := l.log.Settings()
	return LogSettings{
		File: s.File, Format: s.Format, Verbose: s.Verbose, NoInfo: !s.Info, NoWarnings: !s.Warning, NoErrors: !s.Error,
	}
}

// Set changes all but File and Output. An unknown Format leaves the log as it was.
func (l *Log) Set(s LogSettings) error {
	return l.log.Set(logging.Settings{
		File: s.File, Format: cmp.Or(s.Format, logging.FormatDefault), Verbose: s.Verbose,
		Info: !s.NoInfo, Warning: !s.NoWarnings, Error: !s.NoErrors,
	})
}

// LogVerbose is the level of a verbose message of the given depth, from 1 on.
func LogVerbose(depth int) slog.Level { return logging.Verbose(depth) }

// LogSource names the file and line that a message comes from, where that is not
// the caller.
func LogSource(file string, line int) slog.Attr { return logging.Source(file, line) }

// Print writes text as it is, behind the lines before it.
func (l *Log) Print(text string) { l.log.Print(text) }

// Close closes the file, if there is one.
func (l *Log) Close() error { return l.log.Close() }

// shown is the log whose settings clients see; nil without one.
func (l *Log) shown() *logging.Log {
	if l == nil {
		return nil
	}
	return l.log
}

// logger returns what takes the server's log.
func (s *Server) logger() *slog.Logger {
	switch {
	case s.Logger != nil:
		return s.Logger
	case s.Log != nil:
		return s.Log.Logger()
	}
	return slog.Default()
}
