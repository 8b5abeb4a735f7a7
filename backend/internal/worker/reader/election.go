package reader

import "time"

const (
	// IdleRead is how long the channel may stay without a reader. A death in that
	// time is noticed so much later.
	IdleRead = 2 * time.Millisecond
	// callWindow is how long after a call of the process the channel always has a
	// reader: nothing tells when the next call comes, and without a reader it would
	// lie there until the next idle tick. In that time a request costs a switch
	// between goroutines.
	callWindow = 100 * time.Millisecond
)

// Turn says who reads next.
type Turn uint8

// The turns that PassOn knows.
const (
	Waiting    Turn = iota // the one that has waited longest
	Background             // the background goroutine
	Nobody                 // until somebody takes the part, or the idle tick
)

// Wake says why one that waits for a batch is woken.
type Wake uint8

// The reasons.
const (
	WakeEnded Wake = iota // its batch has ended
	WakeLead              // it reads now
)

// Election decides who reads. W stands for whoever waits for a batch. The zero value
// has no reader. It is guarded by its user's lock.
type Election[W comparable] struct {
	reading   bool // somebody has the part
	waiting   []W
	turn      uint64 // counts how often the part was yielded
	idleTurn  uint64
	idleArmed bool
	ended     bool      // a batch has ended since the background goroutine looked
	callUntil time.Time // until then the next call of the process is likely
	closed    bool
}

// Take gives the part to the caller if nobody has it.
func (e *Election[W]) Take() bool {
	if e.reading {
		return false
	}
	e.reading = true
	return true
}

// Wait has w wait for its batch, or for the part.
func (e *Election[W]) Wait(w W) { e.waiting = append(e.waiting, w) }

// Ended notes that the batch of w has ended. It reports whether w waits, and so has to
// be woken.
func (e *Election[W]) Ended(w W) bool {
	e.ended = true
	for i := range e.waiting {
		if e.waiting[i] == w {
			e.remove(i)
			return true
		}
	}
	return false
}

func (e *Election[W]) remove(i int) {
	n := len(e.waiting) - 1
	copy(e.waiting[i:], e.waiting[i+1:])
	var none W
	e.waiting[n] = none
	e.waiting = e.waiting[:n]
}

// PassOn says who has the part after the one that has it: w for Waiting. busy says
// that there is something to wait for. With Nobody, arm says whether to set the idle
// timer, to IdleRead. clock is asked only where it matters.
func (e *Election[W]) PassOn(busy bool, clock func() time.Time) (next Turn, w W, arm bool) {
	switch {
	case len(e.waiting) > 0:
		w = e.waiting[0]
		e.remove(0)
		return Waiting, w, false
	case e.closed || busy || !e.callUntil.IsZero() && clock().Before(e.callUntil):
		return Background, w, false
	}
	return Nobody, w, e.Yield()
}

// Yield leaves the channel without a reader. It reports whether to set the idle
// timer, to IdleRead.
func (e *Election[W]) Yield() (arm bool) {
	e.reading = false
	e.turn++
	return e.Arm()
}

// Arm reports whether to set the idle timer: it is not set, nor is the channel closed.
func (e *Election[W]) Arm() bool {
	if e.idleArmed || e.closed {
		return false
	}
	e.idleArmed = true
	return true
}

// Armed reports whether the idle timer is set.
func (e *Election[W]) Armed() bool { return e.idleArmed }

// Reading reports whether somebody has the part.
func (e *Election[W]) Reading() bool { return e.reading }

// Tick is the event of the idle timer. A channel that nobody has read for a while is
// for the background goroutine: wake it. Otherwise arm may ask for one more tick.
func (e *Election[W]) Tick() (wake, arm bool) {
	e.idleArmed = false
	switch {
	case e.reading || e.closed:
		return false, false
	case e.turn != e.idleTurn:
		e.idleTurn = e.turn
		return false, e.Arm()
	}
	return e.Take(), false
}

// Look is the background goroutine's question behind a frame that it has read: is the
// part to be passed on? quiet says that there is nothing to wait for.
func (e *Election[W]) Look(quiet bool) bool {
	pass := len(e.waiting) > 0 || e.ended && !e.closed && quiet
	e.ended = false
	return pass
}

// Called notes that the process has called the server by itself.
func (e *Election[W]) Called(now time.Time) { e.callUntil = now.Add(callWindow) }

// Close notes the end of the channel: no timer is set any more, and what is left is
// for the background goroutine.
func (e *Election[W]) Close() { e.closed = true }
