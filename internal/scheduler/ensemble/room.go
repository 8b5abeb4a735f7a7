package ensemble

import (
	"context"
	"time"
)

const (
	// window is how many responses of a decoupled step may be on their way through
	// an ensemble without max_inflight_requests; enough for later steps to work in
	// parallel, and to fill batches.
	window = 64
	// limit is how many there may be where the producer cannot wait.
	limit = 4096
	// patience is how long a producer waits for room before it is let go on, as
	// long as the peer does. Only models that wait for each other get here.
	patience = 300 * time.Second
)

// enter counts a response of a decoupled step that comes into the run, once
// there is room for it: a slow step, or a slow client, slows its producer. It
// waits no longer than ctx lives. It reports false when there are too many.
func (x *run) enter(ctx context.Context, st *step) bool {
	most := window
	if x.s.g.inflight > 0 {
		most = x.s.g.inflight
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.live[st.makes] >= most && !x.loose[st.makes] {
		x.waitLocked(ctx, st, most)
	}
	if x.live[st.makes] >= limit && !x.free {
		return false
	}
	x.live[st.makes]++
	return true
}

func (x *run) waitLocked(ctx context.Context, st *step, most int) {
	wake := func() {
		x.mu.Lock()
		defer x.mu.Unlock() // so that a waiter that has just looked is waiting
		x.room.Broadcast()
	}
	defer context.AfterFunc(ctx, wake)()
	expired, over := false, false
	var timer *time.Timer
	timer = time.AfterFunc(patience, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		switch {
		case over:
		case x.busy: // the client is slow, nobody waits in a circle
			timer.Reset(patience)
		default:
			expired = true
			x.room.Broadcast()
		}
	})
	defer timer.Stop()
	for x.live[st.makes] >= most && !x.free && !expired && ctx.Err() == nil {
		x.room.Wait()
	}
	over = true
	if expired {
		x.loose[st.makes] = true
		x.s.o.Logger.Error("step responses have waited too long for later steps",
			"model", x.s.g.name, "step", st.model, "waited", patience)
	}
}

// gone makes room for a response of a decoupled step.
func (x *run) gone(label int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.live[label]--
	x.room.Broadcast()
}
