package wire

import (
	"fmt"
	"sync"
	"time"
)

const (
	// frameWait is how long the reader waits for the next bytes of a frame that has
	// begun. Workers send a frame in one go.
	frameWait = 10 * time.Second
	// frameGrace is added to it: a server that was itself stopped for so long, as on a
	// suspended machine, finds the bytes that came meanwhile.
	frameGrace = time.Second
	// frameRate is how many bytes of a frame must come in a second, after frameWait. It
	// is far below the rate of any worker: a byte now and then is no progress.
	frameRate = 1 << 20
)

// Patience ends a connection whose other side has begun a frame and does not
// come on with it, or too slowly. Only time in which the reader waits counts.
type Patience struct {
	limit, grace time.Duration
	late         func(error)

	mu         sync.Mutex
	timer      *time.Timer
	waiting    bool
	since      time.Time     // nothing has come since; zero behind progress
	begun      time.Time     // of the present wait
	waited     time.Duration // for this frame, before the present wait
	grudging   bool          // in the grace
	have, need int
}

// NewPatience returns one that waits for the next bytes of a frame as long as wait
// and grace say, 0 for ten seconds and one more, and then calls late.
func NewPatience(wait, grace time.Duration, late func(error)) *Patience {
	if wait <= 0 {
		wait, grace = frameWait, frameGrace
	}
	return &Patience{limit: wait, grace: grace, late: late}
}

// leftLocked is how long it may still take until something comes.
func (p *Patience) leftLocked(now time.Time) time.Duration {
	whole := p.limit + time.Duration(p.have)*time.Second/frameRate - p.waited - now.Sub(p.begun)
	return max(min(p.limit-now.Sub(p.since), whole), 0)
}

// whole notes that the frame is there.
func (p *Patience) whole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waited = 0
}

// begin notes that the reader waits for more of a frame of which have bytes are there.
func (p *Patience) begin(have, need int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	p.begun, p.waiting, p.grudging, p.have, p.need = now, true, false, have, need
	left := p.leftLocked(now)
	if p.timer == nil {
		p.timer = time.AfterFunc(left, p.passed)
	} else {
		p.timer.Reset(left)
	}
}

// end notes that the reader does not wait any more. Without progress the reader was
// called away, and the time goes on.
func (p *Patience) end(progress bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = false
	p.waited += time.Since(p.begun)
	if progress {
		p.since = time.Time{}
	}
	p.timer.Stop()
}

func (p *Patience) passed() {
	p.mu.Lock()
	now := time.Now()
	if !p.waiting || p.leftLocked(now) > 0 {
		p.mu.Unlock()
		return
	}
	if !p.grudging {
		p.grudging = true
		p.timer.Reset(p.grace)
		p.mu.Unlock()
		return
	}
	what := fmt.Sprintf("%d of %d bytes have come, and no more within %v", p.have, p.need, p.limit)
	if now.Sub(p.since) < p.limit {
		what = fmt.Sprintf("%d of %d bytes have come in %v", p.have, p.need, (p.waited + now.Sub(p.begun)).Round(time.Second))
	}
	p.mu.Unlock()
	p.late(headerError("frame", 0, "%s", what))
}
