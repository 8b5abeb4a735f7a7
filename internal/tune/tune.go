// Package tune owns `neso tune`: it finds the configuration of a model that serves a goal
// best, by measuring servers of its own. The packages below it own the parts: which
// configurations there are (knobs), in which order they are tried (search), what was
// measured (trial), and where (server, overlay). Open tune.go first, then study.go.
package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/tune/checkpoint"
	"github.com/nesoserve/neso/internal/tune/report"
)

// The exit statuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitInterrupted = 130
)

// Env is what the command sees of the world.
type Env struct {
	Stdout, Stderr io.Writer
	Version        string
	// Binary is the program that is started, with what Serve returns: a server of the
	// models in a repository, on free ports of the loopback.
	Binary string
	Serve  func(repository string, models []string) []string
	// Terminal reports whether Stderr is one that progress is shown on.
	Terminal bool
	// Isolatable are the backends that can run in a process of their own.
	Isolatable []string
}

// Main runs the plan and returns the exit status.
func Main(ctx context.Context, p *Plan, env Env) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	for _, n := range p.Notes {
		fmt.Fprintln(env.Stderr, "note:", n)
	}
	var states []*checkpoint.State
	code := exitDone
	for i := range p.Studies {
		s := &study{plan: p, Study: &p.Studies[i], env: env, directory: p.Directory}
		if len(p.Studies) > 1 {
			s.directory = filepath.Join(p.Directory, p.Studies[i].Models[0].Name)
			fmt.Fprintf(env.Stderr, "\n%s (%d of %d)\n", p.Studies[i].Models[0].Name, i+1, len(p.Studies))
		}
		err := s.run(ctx)
		if s.state != nil && len(s.state.Runs) > 0 {
			states = append(states, s.state)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			fmt.Fprintln(env.Stderr, "error:", measure.Plain(err.Error()))
			code = exitFailed
		case errors.Is(err, errNothing):
			fmt.Fprintln(env.Stderr, "interrupted before anything was measured")
		}
		if ctx.Err() != nil {
			code = exitInterrupted
			break
		}
	}
	if len(states) == 0 {
		return max(code, exitFailed)
	}
	if err := p.conclude(states, env); err != nil {
		for line := range strings.Lines(err.Error()) { // one for each file
			fmt.Fprintln(env.Stderr, "error:", measure.Plain(strings.TrimSuffix(line, "\n")))
		}
		return max(code, exitFailed)
	}
	for _, s := range states { // a search that found nothing has failed
		if o, err := report.Of(s); code == exitDone && (err != nil || o.Verdict.Best == nil) {
			code = exitFailed
		}
	}
	if code == exitInterrupted {
		fmt.Fprintln(env.Stderr, "interrupted: what was measured is kept, the same command goes on from there")
	}
	return code
}

var errNothing = errors.New("nothing was measured")
