package process

import (
	"errors"
	"io"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
)

const (
	// statusWait is how long the exit status is awaited when a worker's channel has
	// ended; after that it is killed.
	statusWait = time.Second
	// lateStatusWait is how long it is awaited after that.
	lateStatusWait = 10 * time.Second
	// termWait is how long SIGTERM may take to work.
	termWait = 2 * time.Second
)

// PID is the number of the process.
func (p *Process) PID() int { return p.pid }

// Ends are the server's ends of its channels.
func (p *Process) Ends() channel.Ends { return p.ch }

// Gone is closed when the process has ended. Its exit status may be known later, or
// never. Its channels may stay open: what it has started may hold them. Gone is nil where
// the end cannot be seen.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Cause says why the process is gone, with the last lines that it printed. It waits for
// the exit status, and kills a process that has only closed its channel; err says how
// reading the channel has ended. what is the server's own reason to end the process, or
// "".
func (p *Process) Cause(what string, err error) string {
	if what != "" {
		p.Kill()
	}
	if !p.await(statusWait) {
		// On a busy machine the news of its end may only be late: what it died of by
		// itself, or by another's hand, is the cause then.
		over := p.over != nil && p.over()
		p.Kill()
		known := p.await(lateStatusWait)
		if what == "" && !over && (!known || p.status.signal == "SIGKILL") {
			what = "the process closed its channel and went on"
		}
	}
	if what == "" {
		what = p.status.String()
		if err != nil && !errors.Is(err, io.EOF) && !p.status.known {
			what += ": " + err.Error()
		}
	}
	p.Kill() // what the worker has started; looking for the rest takes too long to wait for with an answer
	return linelog.WithOutput(what, p.lines)
}

// Stop waits for the process to end, as long as grace says, and then makes it. slow
// is called before each signal.
func (p *Process) Stop(grace time.Duration, slow func()) {
	for _, step := range []struct {
		limit time.Duration
		next  processSignal
	}{{grace, signalTerm}, {termWait, signalKill}} {
		if p.await(step.limit) {
			return
		}
		slow()
		p.signal(step.next)
	}
}

// Wait waits for the end of a process that is about to end, but not for ever.
func (p *Process) Wait() { p.await(termWait) }

// CleanUp ends what the worker has started and left behind, and lets go of the
// process, which has ended.
func (p *Process) CleanUp() {
	p.Kill()
	p.Sweep()
	p.drain()
	p.Release()
}
