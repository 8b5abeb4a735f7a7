package process

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
)

// exitStatus is how a process ended.
type exitStatus struct {
	known  bool
	code   int    // without a signal
	signal string // "SIGKILL", or ""
}

func (s exitStatus) String() string {
	switch {
	case !s.known:
		return "the process ended"
	case s.signal == "SIGKILL":
		return "the process was killed by SIGKILL (out of memory?)"
	case s.signal != "":
		return fmt.Sprintf("the process was killed by %s", s.signal)
	default:
		return fmt.Sprintf("the process exited with code %d", s.code)
	}
}

// Process is a worker's process: a child of the server or of a zygote.
type Process struct {
	pid    int
	handle *os.File // its pidfd, or its job on Windows; nil where there are none
	tag    uint64   // see leftovers_linux.go; 0 for none
	ch     channel.Ends
	output *os.File // what it prints
	exited chan struct{}
	status exitStatus // valid once exited is closed
	// gone is closed when the process has ended. Its exit status may be known later, or
	// never. Its channels may stay open: what it has started may hold them. gone is nil
	// where the end cannot be seen.
	gone  chan struct{}
	lines *linelog.Log
	read  chan struct{} // closed when the output has been read
	// signal sends a signal to the process group; it does nothing after the end.
	signal func(processSignal)
	// over reports whether the process has ended, also before its exit status is known.
	// It returns false where that cannot be seen, and is nil before the process has a
	// number.
	over func() bool

	sweeping sync.Mutex
	swept    bool
}

// processSignal is what the server does to a process that does not stop by itself.
type processSignal int

const (
	signalTerm processSignal = iota
	signalKill
)

// outputDrain is how long the end of the output is awaited after the end of the
// process: grandchildren may hold the pipe.
const outputDrain = 200 * time.Millisecond

func (p *Process) end(s exitStatus) {
	p.status = s
	close(p.exited)
}

// copyOutput runs until the pipe ends.
func (p *Process) copyOutput() {
	defer close(p.read)
	p.lines.Copy(p.output)
	_ = p.output.Close()
}

// Kill ends the process group at once.
func (p *Process) Kill() { p.signal(signalKill) }

// await waits for the exit status and the rest of the output.
func (p *Process) await(limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.exited:
	case <-t.C:
		return false
	}
	p.drain()
	return true
}

func (p *Process) drain() {
	_ = p.output.SetReadDeadline(time.Now().Add(outputDrain))
	<-p.read
}

// hasGone reports whether its end has been seen: over, where nothing else tells of it.
func (p *Process) hasGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}
