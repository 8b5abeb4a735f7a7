package worker

import (
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/reader"
)

// turns says who reads what the worker sends: it does what package reader decides. It
// is part of state.
type turns struct {
	election reader.Election[*batch]
	wake     chan struct{} // gives the part to the background goroutine
	idle     *time.Timer   // its event is Conn.idleTick
}

// passOn gives the reader's part to whoever waits for something. busy says that
// something of the worker is awaited.
func (t *turns) passOn(busy bool) {
	switch next, b, arm := t.election.PassOn(busy, time.Now); next {
	case reader.Waiting:
		b.Wake <- reader.WakeLead
	case reader.Background:
		t.wake <- struct{}{}
	case reader.Nobody:
		if arm {
			t.idle.Reset(reader.IdleRead)
		}
	}
}

// yield leaves the channel without a reader, until an Execute or the idle tick takes
// the part up.
func (t *turns) yield() {
	if t.election.Yield() {
		t.idle.Reset(reader.IdleRead)
	}
}

// ended marks the batch as ended and wakes its Execute if that waits.
func (t *turns) ended(b *batch) {
	b.Ended = true
	if t.election.Ended(b) {
		b.Wake <- reader.WakeEnded
	}
}

// background gives the reader's part to the background goroutine if nobody has it.
func (t *turns) background() {
	if t.election.Take() {
		t.wake <- struct{}{}
	}
}

// tick puts the background goroutine in charge of a channel that nobody has read for a
// while. It is the event of the idle timer.
func (t *turns) tick() {
	switch wake, arm := t.election.Tick(); {
	case wake:
		t.wake <- struct{}{}
	case arm:
		t.idle.Reset(reader.IdleRead)
	}
}
