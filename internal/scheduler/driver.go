package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/stats"
)

// Driver is the shell around a batcher's decisions: it holds the lock under which
// they are made, runs the batches that they send off, reminds the batcher of the
// time, and tells it of the executor's events. The batcher itself knows no lock,
// clock or goroutine. No goroutine owns the batcher either: whoever brings an
// event applies it between Lock and End, which takes well below a microsecond.
// Methods whose name ends in Locked are called between the two.
//
// Batches run on runner goroutines, as many as run at once. A runner goes on
// with the next batch that follows from the one it has executed, and parks when
// there is none; an idle model has none that runs. A batch may as well run on
// the goroutine that brought its last request.
type Driver[E any] struct {
	on    Events[E]
	stats *stats.Version

	mu     sync.Mutex
	fx     Effects[E] // of the event that is being applied
	closed bool
	leave  map[int]func(int) // whom to tell that an instance that leaves has nothing to do any more
	parked int               // runners that wait for work, less the batches on their way
	timer  *time.Timer
	armed  int64 // when the timer fires; 0 when it does not

	unwatched unwatched[E]

	work    chan *Batch[E] // to parked runners
	runners sync.WaitGroup
}

// Events are the functions of a batcher's loop that the driver calls. All but
// Execute and Fail are called with the lock held. Done, Step and Cancel return when
// the batcher is to be reminded of the time if nothing happens before; 0 for never.
type Events[E any] struct {
	// Execute leads to hop 5.
	Execute func(*Batch[E])
	// Start is Execute that waits for nothing and answers nothing: Driver.Ended is called
	// later, with the batch, by another goroutine. Starts reports, with the lock held,
	// whether a batch is one for Start. Both are nil for a batcher that starts none.
	Start  func(*Batch[E])
	Starts func(*Batch[E]) bool
	// Done says that a batch has been executed, or has come back.
	Done func(now int64, x *Batch[E], fx *Effects[E]) (wake int64)
	// Step does what has become due.
	Step func(now int64, fx *Effects[E]) (wake int64)
	// Cancel says that nobody waits for the answer of an entry any more that Queued
	// says is in the queue.
	Cancel func(now int64, e *E, fx *Effects[E]) (wake int64)
	Queued func(e *E) bool
	// Fail answers Effects.Failed.
	Fail func(first *E)
	// Vacant reports whether an instance that leaves has nothing to do any more.
	Vacant func(instance int) bool
}

// NewDriver returns a driver, which starts nothing yet.
func NewDriver[E any](x Instances, v *stats.Version, on Events[E]) *Driver[E] {
	d := &Driver[E]{on: on, stats: v, work: make(chan *Batch[E], 2*x.Instances())} // an instance holds two batches at most
	if limits := x.Limits(); limits != nil {
		limits.OnTurn(d.step)
	}
	return d
}

// Lock begins an event and returns where its effects go.
func (d *Driver[E]) Lock() *Effects[E] {
	d.mu.Lock()
	return &d.fx
}

// Unlock ends an event that has no effects.
func (d *Driver[E]) Unlock() { d.mu.Unlock() }

// ClosedLocked reports whether Close has been called.
func (d *Driver[E]) ClosedLocked() bool { return d.closed }

// End ends an event: it hands out its batches, except one with the entry mine,
// which it returns, sets the alarm and lets go of the lock. Then it answers who
// has failed and tells other models that it is their turn.
func (d *Driver[E]) End(wake int64, mine *E) (own *Batch[E]) {
	own, fx := d.endLocked(wake, mine, nil)
	d.settle(&fx)
	return own
}

// EndAndStart is End for who must neither wait nor answer, for which it may hold locks of
// its own: the batch with the entry mine is started on the calling goroutine, if it can be,
// and what there is to answer is answered on another one.
func (d *Driver[E]) EndAndStart(wake int64, mine *E) {
	if d.on.Starts == nil {
		mine = nil
	}
	x, fx := d.endLocked(wake, mine, d.on.Starts)
	if !fx.settled() {
		left := fx         // fx itself is on the stack
		go d.settle(&left) // it ends with the requests, whose pins hold the version
	}
	d.start(x)
}

// endLocked lets go of the lock. It returns what is left to do without it.
func (d *Driver[E]) endLocked(wake int64, mine *E, may func(*Batch[E]) bool) (own *Batch[E], fx Effects[E]) {
	if d.fx.First != nil {
		own = d.handLocked(mine, may)
	}
	if len(d.leave) > 0 {
		d.vacateLocked()
	}
	d.AlarmLocked(wake)
	if !d.fx.settled() {
		fx = d.takeLocked()
	}
	d.mu.Unlock()
	return own, fx
}

// Run executes a batch on the calling goroutine.
func (d *Driver[E]) Run(x *Batch[E]) {
	for x != nil {
		d.on.Execute(x)
		x = d.done(x, leaver)
	}
}

// Ended says that a batch that was started has ended. What follows from that is started,
// too, on the calling goroutine.
func (d *Driver[E]) Ended(x *Batch[E]) { d.start(d.done(x, starter)) }

// start starts a batch, if there is one.
func (d *Driver[E]) start(x *Batch[E]) {
	if x != nil {
		d.on.Start(x)
	}
}

// role is what a goroutine that has executed a batch does next.
type role uint8

const (
	leaver  role = iota // something else
	runner              // it runs the next batch, or waits for one
	starter             // it starts the next batch, or does something else
)

// done says that a batch has been executed.
func (d *Driver[E]) done(x *Batch[E], by role) (next *Batch[E]) {
	now := backend.Now()
	d.mu.Lock()
	wake := d.on.Done(now, x, &d.fx)
	if by == runner || by == starter && d.fx.First != nil && d.on.Starts(d.fx.First) {
		if next = d.fx.take(); next != nil {
			d.stats.Closed(next.Reason)
		} else {
			d.parked++
		}
	}
	d.End(wake, nil)
	return next
}

// step does what has become due. It is the event of the timer, and of the rate
// limiter when it is an instance's turn to run.
func (d *Driver[E]) step() {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return
	}
	d.End(d.on.Step(backend.Now(), &d.fx), nil)
}

// Soon has Step called by the timer: for events whose bringer may hold locks of
// its own, under which no request is to be answered.
func (d *Driver[E]) Soon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.AlarmLocked(max(1, backend.Now()))
	}
}

// handLocked gives the batches to runners, except one with the entry mine; may, if not
// nil, says whether it is for the caller.
func (d *Driver[E]) handLocked(mine *E, may func(*Batch[E]) bool) (own *Batch[E]) {
	for x := d.fx.First; x != nil; {
		next := x.Next
		d.stats.Closed(x.Reason)
		if mine != nil && own == nil && slices.Contains(x.Entries, mine) && (may == nil || may(x)) {
			own = x
		} else {
			d.runLocked(x)
		}
		x = next
	}
	d.fx.First, d.fx.last = nil, nil
	return own
}

// vacateLocked has those told that wait for instances to leave, in their order.
func (d *Driver[E]) vacateLocked() {
	for _, i := range slices.Sorted(maps.Keys(d.leave)) {
		if left := d.leave[i]; d.on.Vacant(i) {
			delete(d.leave, i)
			d.fx.After = append(d.fx.After, func() { left(i) })
		}
	}
}

// takeLocked takes what is to be done without the lock.
func (d *Driver[E]) takeLocked() Effects[E] {
	fx := d.fx
	d.fx = Effects[E]{}
	return fx
}

// settle does what is to be done without the lock.
func (d *Driver[E]) settle(fx *Effects[E]) {
	if fx.Failed != nil {
		d.on.Fail(fx.Failed)
	}
	fx.Turns.Tell()
	for _, f := range fx.After {
		f()
	}
}

// runLocked gives a batch to a runner: one that waits, or a new one, as also
// where more run at once than there were instances for at first.
func (d *Driver[E]) runLocked(x *Batch[E]) {
	if d.parked > 0 && len(d.work) < cap(d.work) {
		d.parked--
		d.work <- x
		return
	}
	d.runners.Go(func() { d.serve(x) })
}

// serve is a runner.
func (d *Driver[E]) serve(x *Batch[E]) {
	for ok := true; ok; x, ok = <-d.work {
		for x != nil {
			d.on.Execute(x)
			x = d.done(x, runner)
		}
	}
}

// LeaveLocked has left called once the instance has nothing to do any more.
func (d *Driver[E]) LeaveLocked(instance int, left func(int)) {
	if d.leave == nil {
		d.leave = map[int]func(int){}
	}
	d.leave[instance] = left
}

// AlarmLocked has Step called at a time of backend.Now, or sooner; 0 for never.
func (d *Driver[E]) AlarmLocked(at int64) {
	if at == 0 || d.armed != 0 && at >= d.armed {
		return
	}
	d.armed = at
	wait := time.Duration(max(0, at-backend.Now()))
	if d.timer == nil {
		d.timer = time.AfterFunc(wait, d.tick)
	} else {
		d.timer.Reset(wait)
	}
}

// tick is the timer's event.
func (d *Driver[E]) tick() {
	d.mu.Lock()
	d.armed = 0
	d.mu.Unlock()
	d.step()
}

// Close ends the runners when they have nothing to run any more, waits until they
// have ended and calls last, which may be nil; when ctx ends before, it returns
// its cause, and last is called later. The first call has drain empty the queue,
// under the lock, and refuse answer what was in it.
func (d *Driver[E]) Close(ctx context.Context, drain func(*Effects[E]) *E, refuse func(*E), last func()) error {
	var queued *E
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		queued = drain(&d.fx)
		for _, t := range []*time.Timer{d.timer, d.unwatched.timer} {
			if t != nil {
				t.Stop()
			}
		}
		close(d.work)
	}
	fx := d.takeLocked()
	d.mu.Unlock()
	fx.Turns.Tell()
	if queued != nil {
		refuse(queued)
	}
	return d.wait(ctx, last)
}

func (d *Driver[E]) wait(ctx context.Context, last func()) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		d.runners.Wait()
		if last != nil {
			last()
		}
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
