package load

import (
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/schedule"
)

// open is a load whose requests are due at times that do not depend on answers.
type open struct {
	*Load
	most     int
	slots    chan int      // of sequences that have no request under way; nil without sequences
	due      chan struct{} // holds one while a goroutine waits for the next request to be due
	arrivals schedule.Arrivals
	waiting  atomic.Int32
	workers  atomic.Int32
}

// Open sends requests when they are due, over as many connections as that needs but
// at most so many. A request that finds none free is late: its latency counts from
// when it was due.
func Open(p Plan, arrivals schedule.Arrivals, most, sequences int) *Load {
	if p.Sleep == nil {
		p.Sleep = nap
	}
	o := &open{Load: newLoad(p), most: most, arrivals: arrivals, due: make(chan struct{}, 1)}
	if p.Sequences != nil {
		o.slots = make(chan int, sequences)
		for i := range sequences {
			o.slots <- i
		}
	}
	o.workers.Store(1)
	o.group.Go(o.run)
	go func() {
		o.group.Wait()
		o.endSequences()
		close(o.done)
	}()
	return o.Load
}

// run waits for its turn, then for the time that is due, then sends. One of the
// goroutines waits for the time while the others wait for it or for answers; if none
// waits behind it, it starts another.
func (o *open) run() {
	w := o.worker()
	defer w.conn.Close()
	for {
		o.waiting.Add(1)
		o.due <- struct{}{}
		o.waiting.Add(-1)
		due, turn, ok := o.nextDue()
		<-o.due
		if !ok || !o.sendOne(w, due, turn) {
			return
		}
	}
}

// nextDue waits until the next request is due, and counts it; false says that the load
// was stopped.
func (o *open) nextDue() (due int64, turn uint64, ok bool) {
	if o.stopped.Load() || !o.claim() {
		return 0, 0, false
	}
	turn = o.turn.Add(1) - 1
	due = o.Begun + int64(o.arrivals.Next())
	if !o.sleep(due) {
		return 0, 0, false
	}
	if o.waiting.Load() == 0 && int(o.workers.Load()) < o.most {
		o.workers.Add(1)
		o.group.Go(o.run)
	}
	return due, turn, true
}

func (o *open) sendOne(w *worker, due int64, turn uint64) bool {
	slot := 0
	if o.slots != nil {
		select {
		case slot = <-o.slots:
		case <-o.stop:
			return false
		}
		defer func() { o.slots <- slot }()
	}
	w.next(slot, turn)
	w.send(slot, due)
	return true
}

// endSequences sends the ends of sequences that are under way, so that the server need
// not keep their places. They count for nothing.
func (o *open) endSequences() {
	if o.plan.Sequences == nil {
		return
	}
	w := o.worker()
	defer w.conn.Close()
	for _, p := range o.plan.Sequences.Unfinished() {
		w.request = drive.Request{Prepared: o.plan.Requests[p.Stream][p.Step], ID: p.ID, End: true}
		if f, ok := w.conn.Do(&w.request, &w.answer).(*drive.Failure); ok && f.Broken { //nolint:errorlint // never wrapped
			return // a server that has gone keeps nothing
		}
	}
}

// longSleep is how long a goroutine sleeps before it looks whether the load was stopped.
const longSleep = 50 * time.Millisecond

// sleep waits until due; false says that the load was stopped.
func (o *open) sleep(due int64) bool {
	for {
		left := time.Duration(due - drive.Now())
		if left <= 0 {
			return true
		}
		if left > longSleep {
			t := time.NewTimer(longSleep / 2)
			select {
			case <-o.stop:
				t.Stop()
				return false
			case <-t.C:
			}
			continue
		}
		o.plan.Sleep(left)
	}
}
