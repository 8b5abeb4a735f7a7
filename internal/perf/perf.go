// Package perf owns the load generator `neso perf`: from its command line to what it
// prints and writes. The packages below it own the parts. Open perf.go first, then
// setup.go and profile.go.
package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/report"
)

// The exit statuses, of which those of perf_analyzer have its numbers.
const (
	exitDone        = 0
	exitUnstable    = 2
	exitNothing     = 3 // the windows were too short for a single answer
	exitFailed      = 99
	exitInterrupted = 130
)

// Env is what the command sees of the world.
type Env struct {
	Stdout, Stderr io.Writer
	Program        string // as it calls itself
	Version        string
	// Terminal reports whether Stderr is one that progress is shown on.
	Terminal bool
	// Serve starts a server within the process; nil where that is not possible.
	// The server has the model and those in with; ctx bounds the start.
	Serve func(ctx context.Context, repository, model string, with []string) (Server, error)
}

// Main runs the command and returns its exit status.
func Main(ctx context.Context, args []string, env Env) int {
	out := &keeping{w: env.Stdout}
	env.Stdout = out
	code := run(ctx, args, env)
	if out.err != nil && code != exitInterrupted {
		fmt.Fprintln(env.Stderr, "error: the report could not be printed:", out.err)
		code = exitFailed
	}
	return code
}

// keeping is a writer that keeps its first error.
type keeping struct {
	w   io.Writer
	err error
}

func (k *keeping) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	if k.err == nil {
		k.err = err
	}
	return n, err
}

func run(ctx context.Context, args []string, env Env) int {
	o, err := options.Parse(args)
	switch {
	case errors.Is(err, options.ErrHelp):
		options.Usage(env.Stdout, env.Program)
		return exitDone
	case errors.Is(err, options.ErrVersion):
		fmt.Fprintln(env.Stdout, "Perf Analyzer Version", env.Version, "(Neso)")
		return exitDone
	case err != nil:
		fmt.Fprintf(env.Stderr, "Error: %s\nUsage: %s -m MODEL [options] ('%s -h' says more)\n", err, env.Program, env.Program)
		return exitFailed
	}
	report := env.Stdout
	if o.ReportOut() {
		env.Stdout = env.Stderr
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	for _, n := range o.Notes {
		fmt.Fprintln(env.Stderr, "note:", n)
	}
	s, err := setup(ctx, o, env)
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(env.Stderr, "interrupted before anything was measured")
			return exitInterrupted
		}
		fmt.Fprintln(env.Stderr, "error:", measure.Plain(err.Error()))
		return exitFailed
	}
	defer s.close()
	s.out = report
	return s.run(ctx)
}

// errNothing says of a load that its windows were over before anything was answered.
var errNothing = errors.New("no request was answered in the time of the measurement: it needs a longer window")

// session is one run of the command.
type session struct {
	*prepared
	env      Env
	report   *report.Run
	out      io.Writer // of the report, if it has no file
	failure  error     // what ended the run early
	unstable bool
	zero     int64 // when the first load began
}

func (s *session) run(ctx context.Context) int {
	out := s.env.Stdout
	s.report.Settings(out)
	s.profile(ctx)
	s.report.Summary(out)
	code := exitDone
	failed := s.failed()
	if failed != "" {
		code = exitFailed
	}
	switch {
	case s.failure != nil:
		fmt.Fprintln(s.env.Stderr, "error:", measure.Plain(s.failure.Error()))
		if code = exitFailed; errors.Is(s.failure, errNothing) {
			code = exitNothing
		}
	case ctx.Err() != nil:
		fmt.Fprintln(s.env.Stderr, "interrupted: the report has what was measured until then")
		code = exitInterrupted
	case failed != "":
		fmt.Fprintln(s.env.Stderr, "error:", failed)
	case s.unstable:
		code = exitUnstable
	}
	if err := s.write(); err != nil {
		fmt.Fprintln(s.env.Stderr, "error:", err)
		code = exitFailed
	}
	return code
}

// failed says how many requests have failed, and why most of them have; "" if none has.
func (s *session) failed() string {
	var answered, failed int64
	var most measure.ErrorCount
	for i := range s.report.Results {
		w := s.report.Results[i].Window
		answered, failed = answered+w.Count, failed+w.Failed()
		if len(w.Errors) > 0 && w.Errors[0].Count > most.Count {
			most = w.Errors[0]
		}
	}
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d requests failed: %s", failed, answered+failed, strings.TrimSuffix(most.Kind+": "+most.Text, ": "))
}

// epoch is the wall clock's time, in nanoseconds since 1970, at which drive.Now was 0.
func epoch() int64 { return time.Now().UnixNano() - drive.Now() }
