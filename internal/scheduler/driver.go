package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// Driver runs the batches that a batcher's decisions send off, and reminds it
// of the time: what the loops of all batchers have in common. The batcher keeps
// its state under a mutex of its own; methods whose name ends in Locked are
// called with it held.
//
// Batches run on runner goroutines, as many as run at once. A runner goes on
// with the next batch that follows from the one it has executed, and parks when
// there is none; an idle model has none that runs. A batch may as well run on
// the goroutine that brought its last request.
type Driver[B any] struct {
	execute func(*B)
	finish  func(b *B, runner bool) (next *B)
	tick    func()

	runners sync.WaitGroup
	work    chan *B // to parked runners; has room for all of them
	parked  int     // runners that wait for work, less the batches on their way
	timer   *time.Timer
	armed   int64 // when the timer fires; 0 when it does not
}

// NewDriver returns a driver, which starts nothing yet. execute leads to hop 5.
// finish applies what follows from the end of a batch; with runner set it may
// return one that the same goroutine is to run next, and else calls ParkLocked.
// tick is called when the time of AlarmLocked has come, and calls RangLocked
// first. At most so many batches run at once.
func NewDriver[B any](batches int, execute func(*B), finish func(b *B, runner bool) (next *B), tick func()) *Driver[B] {
	return &Driver[B]{execute: execute, finish: finish, tick: tick, work: make(chan *B, batches)}
}

// Run executes a batch on the calling goroutine.
func (d *Driver[B]) Run(b *B) { d.run(b, false) }

func (d *Driver[B]) run(b *B, runner bool) {
	for b != nil {
		d.execute(b)
		b = d.finish(b, runner)
	}
}

// HandLocked gives a batch to a runner: one that waits, or a new one.
func (d *Driver[B]) HandLocked(b *B) {
	if d.parked > 0 {
		d.parked--
		d.work <- b
		return
	}
	d.runners.Go(func() {
		for ok := true; ok; b, ok = <-d.work {
			d.run(b, true)
		}
	})
}

// ParkLocked says that the calling runner has nothing to run next.
func (d *Driver[B]) ParkLocked() { d.parked++ }

// AlarmLocked has tick called at a time of backend.Now, or sooner; 0 for never.
func (d *Driver[B]) AlarmLocked(at int64) {
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

// RangLocked says that the alarm has gone off.
func (d *Driver[B]) RangLocked() { d.armed = 0 }

// CloseLocked ends the runners when they have nothing to run any more. Nothing
// may be handed to them after it. It is called once.
func (d *Driver[B]) CloseLocked() {
	if d.timer != nil {
		d.timer.Stop()
	}
	close(d.work)
}

// Wait waits until the runners have ended and then calls last, which may be
// nil. When ctx ends before, it returns its cause, and last is called later.
func (d *Driver[B]) Wait(ctx context.Context, last func()) error {
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
