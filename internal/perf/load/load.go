// Package load owns the goroutines that send requests: as many as are to be in
// flight, or as many as a rate needs, each with a connection of its own. Open
// load.go first, then open.go.
package load

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/schedule"
	"github.com/nesoserve/neso/internal/perf/wire"
)

// Plan is what a load sends, and where.
type Plan struct {
	// Dial returns a connection that dials with its first request.
	Dial func() drive.Conn
	// Requests has those of each stream of the data.
	Requests [][]*wire.Prepared
	// Check says what is wrong with an answer, if anything is; nil takes all.
	Check func(p *wire.Prepared, a *drive.Answer) error
	// Keep has the answers kept and every request recorded, for a profile export.
	Keep bool
	// Recorder is told of every request.
	Recorder *measure.Recorder
	// Sequences gives requests to sequences; nil without them.
	Sequences *schedule.Sequences
	// Limit bounds the requests that are sent; 0 is none.
	Limit int64
	// FirstResponse has the latency of a request end with its first response.
	FirstResponse bool
	// Sleep is how a request that is not due yet is waited for; nil sleeps in the kernel.
	Sleep func(time.Duration)
}

// Load is a load that runs.
type Load struct {
	// Begun is when it began, by drive.Now: nothing was sent before.
	Begun int64

	plan    Plan
	stop    chan struct{}
	stopped atomic.Bool
	taken   atomic.Int64 // of the limit
	turn    atomic.Uint64
	group   sync.WaitGroup
	done    chan struct{} // closed when the last goroutine has ended

	mu    sync.Mutex // guards Sequences and what follows
	conns []drive.Conn
	ended bool // the connections have been closed, and so is each that comes
}

func newLoad(p Plan) *Load {
	return &Load{Begun: drive.Now(), plan: p, stop: make(chan struct{}), done: make(chan struct{})}
}

// Closed keeps n requests in flight.
func Closed(p Plan, n int) *Load {
	l := newLoad(p)
	for slot := range n {
		l.group.Go(func() { l.closed(slot) })
	}
	go l.finish()
	return l
}

func (l *Load) finish() {
	l.group.Wait()
	close(l.done)
}

// Done is closed when all requests of a limit have been answered, and after Stop.
func (l *Load) Done() <-chan struct{} { return l.done }

// Stop ends the load: requests under way are waited for as long as grace, then their
// connections are closed.
func (l *Load) Stop(grace time.Duration) {
	if !l.stopped.Swap(true) {
		close(l.stop)
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-l.done:
	case <-t.C:
	}
	l.mu.Lock()
	l.ended = true
	for _, c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	<-l.done
}

// worker is what one goroutine has.
type worker struct {
	l        *Load
	conn     drive.Conn
	shard    *measure.Shard
	request  drive.Request
	answer   drive.Answer
	sample   measure.Sample
	position schedule.Position
	pause    time.Duration
}

func (l *Load) worker() *worker {
	w := &worker{l: l, conn: l.plan.Dial(), shard: l.plan.Recorder.Shard()}
	w.answer.Keep = l.plan.Keep || l.plan.Check != nil
	w.answer.Times = l.plan.Keep
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns = append(l.conns, w.conn); l.ended {
		w.conn.Close()
	}
	return w
}

// claim takes one request of the limit; false says that there is none left.
func (l *Load) claim() bool { return l.plan.Limit <= 0 || l.taken.Add(1) <= l.plan.Limit }

// next takes the next request of a slot, turn counting those of all slots.
func (w *worker) next(slot int, turn uint64) {
	l := w.l
	if l.plan.Sequences == nil {
		stream := l.plan.Requests[0]
		i := 0
		if len(stream) > 1 {
			i = int(turn % uint64(len(stream)))
		}
		w.request.Prepared = stream[i]
		return
	}
	l.mu.Lock()
	w.position = l.plan.Sequences.Next(slot)
	l.mu.Unlock()
	w.request = drive.Request{
		Prepared: l.plan.Requests[w.position.Stream][w.position.Step], ID: w.position.ID, Start: w.position.Start, End: w.position.End,
	}
}

// send sends the request that next has taken; due is when it had to be sent, 0 for now.
func (w *worker) send(slot int, due int64) {
	begun := drive.Now()
	if due == 0 {
		due = begun
	}
	if err := w.conn.Do(&w.request, &w.answer); err != nil {
		w.failed(slot, err)
		return
	}
	w.pause = 0
	a := &w.answer
	if w.l.plan.Check != nil {
		if err := w.l.plan.Check(w.request.Prepared, a); err != nil {
			_ = w.wrong(err) // its sequence goes on, at the server too
			return
		}
	}
	w.sample = measure.Sample{
		Due: due, Begun: begun, Sent: a.Sent, First: max(a.First, a.Sent), Last: a.Last, Responses: a.Responses, SequenceEnd: w.request.End,
	}
	if w.l.plan.FirstResponse && a.Responses > 0 {
		w.sample.Last = a.FirstResponse
	}
	w.shard.Add(&w.sample)
	if w.l.plan.Keep {
		w.shard.Keep(&measure.Record{
			Start: begun, Step: w.request.Step, ID: w.request.ID, At: append([]int64(nil), a.At...), Body: a.Body, Ends: a.Ends,
			Header: a.Header,
		})
	}
}

// The pauses of a goroutine whose connection cannot be made.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// wrong counts a request that failed.
func (w *worker) wrong(err error) *drive.Failure {
	f, ok := errors.AsType[*drive.Failure](err)
	if !ok {
		f = &drive.Failure{Kind: err.Error()}
	}
	if f.Kind != "stopped" {
		w.shard.Fail(f.Kind, f.Text)
	}
	return f
}

func (w *worker) failed(slot int, err error) {
	f := w.wrong(err)
	if f.Kind == "stopped" {
		return
	}
	if s := w.l.plan.Sequences; s != nil {
		w.l.mu.Lock()
		s.Abandon(slot)
		w.l.mu.Unlock()
	}
	if !f.Broken {
		return
	}
	w.pause = min(max(firstPause, 2*w.pause), lastPause)
	t := time.NewTimer(w.pause)
	defer t.Stop()
	select {
	case <-w.l.stop:
	case <-t.C:
	}
}

func (l *Load) closed(slot int) {
	w := l.worker()
	defer w.conn.Close()
	for !l.stopped.Load() && l.claim() {
		w.next(slot, l.turn.Add(1)-1)
		w.send(slot, 0)
	}
	w.endSequence()
}

// endSequence sends the end of a sequence that is under way, so that the server need
// not keep its place. It counts for nothing.
func (w *worker) endSequence() {
	if w.l.plan.Sequences == nil || w.position.End || w.position.ID == 0 || w.pause > 0 {
		return
	}
	w.request.Start, w.request.End = false, true
	_ = w.conn.Do(&w.request, &w.answer) // a server that has gone keeps nothing
}
