package worker

import (
	"fmt"
	"time"
)

// limitClock bounds how long a worker may take for one batch. Batches are sent ahead and
// run in order, so the time of a batch begins when the one before it has ended. Hence
// only the oldest batch is timed. The lock of the connection guards the clock.
type limitClock struct {
	oldest uint64 // the batch that is timed, 0 for none
	since  time.Time
	timer  *time.Timer
}

// LateError ends a connection whose worker has used up its time.
type LateError struct {
	what  string // has not happened
	limit time.Duration
	by    string // who said so
	note  string // what else is known, or ""
}

func (e *LateError) Error() string {
	text := fmt.Sprintf("%s within %v (%s), the process was ended", e.what, e.limit, e.by)
	if e.note != "" {
		text += "; it had " + e.note
	}
	return text
}

// limitBegun notes that a batch of an instance with a limit was sent.
func (w *work) limitBegun(inst *Instance, id uint64) {
	if inst.Limit > 0 && inst.clock.oldest == 0 {
		w.time(inst, id)
	}
}

// limitEnded notes that a batch has ended, which has left its pipeline.
func (w *work) limitEnded(inst *Instance, id uint64) {
	if inst.Limit <= 0 || inst.clock.oldest != id {
		return
	}
	if next := inst.pipeline.First(); next != nil {
		w.time(inst, next.ID)
	} else {
		w.time(inst, 0)
	}
}

func (w *work) time(inst *Instance, id uint64) {
	k := inst.clock
	k.oldest, k.since = id, time.Now()
	switch {
	case w.out.ended || id == 0:
		if k.timer != nil {
			k.timer.Stop()
		}
	case k.timer == nil:
		k.timer = time.AfterFunc(inst.Limit, func() { inst.conn.limitPassed(inst) })
	default:
		k.timer.Reset(inst.Limit)
	}
}

// limitPassed ends the connection if the oldest batch has had its time. The process
// cannot be told to stop in the middle of a model's code.
func (c *Conn) limitPassed(inst *Instance) {
	s, k := c.lock(), inst.clock
	late := s.err == nil && k.oldest != 0 && time.Since(k.since) >= inst.Limit
	c.unlock()
	if late {
		c.end(&LateError{what: "execute did not return", limit: inst.Limit, by: "EXECUTION_TIMEOUT_SECONDS"})
	}
}

// stopLimits stops the clocks of a connection that has ended.
func (w *work) stopLimits() {
	for _, inst := range w.instances {
		if inst.clock != nil && inst.clock.timer != nil {
			inst.clock.timer.Stop()
		}
	}
}
