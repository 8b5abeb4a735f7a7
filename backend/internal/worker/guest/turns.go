package guest

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
)

// A frame that another thread reads costs its hand-over: two futexes, and often a core
// that has to wake. So where a process has one served instance, the thread of that reads
// the control channel itself while it has nothing to run. What it must never do is keep
// others waiting: a cancellation, credit, memory, the end. So
//   - what the library waits for the server for has the background goroutine read at once
//     (readOn);
//   - a clock, which ticks only while something runs, has it read when an execution has
//     seen two ticks. It gives the part back when the thread has nothing to run again.
//     Where executions have long been shorter than its ticks it ticks less often.
// It polls for the next frame before it sleeps, see channel.Source.
// Where there are several instances the background goroutine reads: what is for one of
// them must not wait for what another one runs.

const (
	// tick is how often the clock ticks. What is for others than the library that runs may
	// wait for two of them, and so may an answer that the library gives in the middle of its
	// execution, for the report of its request; where that is released, for one.
	tick = 500 * time.Microsecond
	// After so many ticks none of which has seen an execution that lasted since the one
	// before, the next takes twice as long, slowest times as long at most.
	quickTicks, slowest = 16, 8
)

// source is where frames come from.
type source interface {
	io.Reader
	// Interrupt has the Read that waits, or the next one, return channel.ErrInterrupted.
	Interrupt()
	// Expect says whether the next frame probably comes soon, and whether Read is to poll
	// for it before the thread sleeps.
	Expect(soon, ask bool)
}

// turns says who reads the control channel.
type turns struct {
	mu     sync.Mutex
	lines  map[uint32]*line
	leader *line     // the one that reads while it has nothing to run; nil for none
	taken  bool      // somebody reads
	away   bool      // the leader runs something for long, or waits for the server
	err    error     // why nobody reads any more
	spare  int       // how many may keep a processor while they wait for a moment
	back   sync.Cond // what the background goroutine waits on

	executing int    // how many lines run something
	begun     uint64 // counts executions
	ticked    uint64 // begun at the last tick
	quick     int    // how many ticks in a row have seen no execution that lasted since the one before
	armed     bool
	clock     *time.Timer
	running   []*batch // of the tick alone
}

func (t *turns) init(g *Guest) {
	t.lines = map[uint32]*line{}
	t.back.L = &t.mu
	t.clock = time.AfterFunc(time.Hour, g.tick)
	t.clock.Stop()
}

// background reads where no thread of an instance does, until the end.
func (g *Guest) background() error {
	t := &g.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.err == nil {
		if t.taken || t.leader != nil && !t.away {
			t.back.Wait()
			continue
		}
		g.takeLocked(false)
		if t.leader != nil {
			t.leader.wake.signal()
		}
	}
	t.changedLocked()
	return t.err
}

// takeLocked reads once: it waits for a frame, or for an interruption. leads says that the
// caller is the thread that runs what comes.
func (g *Guest) takeLocked(leads bool) {
	t := &g.turns
	t.taken = true
	soon := t.spendLocked()
	t.mu.Unlock()
	g.in.Expect(soon, soon && leads)
	err := g.take()
	t.mu.Lock()
	t.spareLocked(soon)
	t.taken = false
	if err != nil && !errors.Is(err, channel.ErrInterrupted) && t.err == nil {
		t.err = err
	}
}

// take handles the next frame, and those that have come with it.
func (g *Guest) take() error {
	for {
		h, body, err := g.rd.Next()
		if err == nil {
			err = g.handle(h, body)
		}
		if err != nil || !g.rd.Buffered() {
			return err
		}
	}
}

// fail ends the connection for something else than what was read.
func (g *Guest) fail() {
	t := &g.turns
	t.mu.Lock()
	if t.err == nil {
		t.err = os.ErrClosed
	}
	t.changedLocked()
	t.mu.Unlock()
}

// changedLocked has everybody look who is to read.
func (t *turns) changedLocked() {
	t.back.Signal()
	for _, l := range t.lines {
		l.wake.signal()
	}
}

// join adds a line, part takes it out.
func (g *Guest) join(l *line) {
	t := &g.turns
	t.mu.Lock()
	t.lines[l.number] = l
	g.electLocked()
	t.mu.Unlock()
}

func (g *Guest) part(number uint32) *line {
	t := &g.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[number]
	delete(t.lines, number)
	if l != nil {
		l.closed = true
		l.wake.signal()
		g.electLocked()
	}
	return l
}

// electLocked decides whether the thread of an instance reads.
func (g *Guest) electLocked() {
	t := &g.turns
	t.leader = nil
	if len(t.lines) == 1 {
		for _, l := range t.lines {
			t.leader = l
		}
	}
	t.away = t.leader != nil && t.leader.executing
	if t.taken {
		g.in.Interrupt()
	}
	t.changedLocked()
}

// readOn has the background goroutine read while the caller, which the library has
// called, waits for the server.
func (g *Guest) readOn() {
	t := &g.turns
	t.mu.Lock()
	if t.leader != nil && t.leader.executing && !t.away {
		t.away = true
		t.back.Signal()
	}
	t.mu.Unlock()
}

// put hands a batch to the line that it is for, if there is one.
func (g *Guest) put(j job) bool {
	t := &g.turns
	t.mu.Lock()
	l := t.lines[j.h.Instance]
	if l != nil {
		j.in.Retain()
		l.jobs = append(l.jobs, j)
	}
	t.mu.Unlock()
	if l != nil {
		l.wake.signal() // not under the lock, which is the first that the thread takes
	}
	return l != nil
}

// next waits for the next batch of the line; false at its end. The one before has ended.
func (l *line) next() (job, bool) {
	g := l.guest
	t := &g.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.executing {
		l.executing, l.batch = false, nil
		t.executing--
		if t.leader == l {
			t.away = false
		}
	}
	for {
		switch {
		case len(l.jobs) > 0:
			return l.beginLocked(), true
		case l.closed || t.err != nil:
			return job{}, false
		case t.leader != l:
			l.waitLocked()
		case t.taken:
			g.in.Interrupt()
			l.waitLocked()
		default:
			g.takeLocked(true)
			if t.err != nil || t.leader != l {
				t.changedLocked() // the background goroutine has it from here
			}
		}
	}
}

func (l *line) waitLocked() {
	t := &l.guest.turns
	soon := t.spendLocked()
	l.wake.wait(soon)
	t.spareLocked(soon)
}

// spendLocked reports whether who waits now may keep a processor; spareLocked is the end
// of that.
func (t *turns) spendLocked() bool {
	if t.spare == 0 {
		return false
	}
	t.spare--
	return true
}

func (t *turns) spareLocked(spent bool) {
	if spent {
		t.spare++
	}
}

func (l *line) beginLocked() job {
	t := &l.guest.turns
	j := l.jobs[0]
	l.jobs[0] = job{}
	if l.jobs = l.jobs[1:]; len(l.jobs) == 0 {
		l.jobs = l.room[:0]
	}
	l.executing = true
	t.executing++
	t.begun++
	if !t.armed {
		t.armed = true
		t.clock.Reset(t.intervalLocked())
	}
	return j
}

// more reports whether the line has something to run next.
func (l *line) more() bool {
	t := &l.guest.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(l.jobs) > 0
}

// runs notes what the line runs.
func (l *line) runs(b *batch) {
	t := &l.guest.turns
	t.mu.Lock()
	l.batch = b
	t.mu.Unlock()
}

// intervalLocked is how long the clock waits.
func (t *turns) intervalLocked() time.Duration {
	return tick * time.Duration(min(1<<min(t.quick/quickTicks, 10), slowest))
}

// tick is the clock's event.
func (g *Guest) tick() {
	t := &g.turns
	t.mu.Lock()
	same := t.begun == t.ticked
	t.ticked = t.begun
	if same && t.leader != nil && t.leader.executing && !t.away {
		t.away = true
		t.back.Signal()
	}
	if same && t.executing > 0 {
		t.quick = 0
	} else {
		t.quick++
	}
	running := t.running[:0]
	for _, l := range t.lines {
		if l.batch != nil {
			running = append(running, l.batch)
		}
	}
	t.running = nil
	if t.armed = t.executing > 0 || !same; t.armed {
		t.clock.Reset(t.intervalLocked())
	}
	t.mu.Unlock()
	for _, b := range running {
		b.flush()
	}
	g.flush()
	clear(running)
	t.mu.Lock()
	t.running = running[:0]
	t.mu.Unlock()
}
