package worker

import (
	"fmt"
	"sync"
	"time"
)

// A worker says how long a frame is before it sends it. What a frame of its kind
// cannot be ends the connection at once, and so does a frame that has begun and
// does not come on: whoever waits behind it would wait for ever.

const (
	// maxText bounds frames of texts, far above what workers make of them.
	maxText = 64 << 20
	// maxReleases bounds RELEASE: more than a million blocks.
	maxReleases = 16 << 20
	// maxWord bounds what is short and has no tensors: HELLO, UNBIND.
	maxWord = 1 << 20
	// frameWait is how long the reader waits for the next bytes of a frame that has
	// begun. Workers send a frame in one go.
	frameWait = 10 * time.Second
	// frameGrace follows on it: a server that was itself stopped for so long, as in
	// a suspended machine, finds what came meanwhile.
	frameGrace = time.Second
)

// bodyBounds has the largest body that a kind may have on its way to the server.
var bodyBounds = map[Kind]uint32{
	KindHello: maxWord, KindReady: maxText, KindFailed: maxText, KindDone: maxText, KindLog: maxText, KindMetric: maxText,
	KindResponses: MaxBody, KindResultBatch: MaxBody, KindInfer: MaxBody, // with tensors in them
	KindControl: MaxBody, // with the files of a model
	KindBind:    maxText, KindUnbind: maxWord,
	KindRelease: maxReleases, KindGrow: 24, KindCredit: 4, KindCancel: 0, KindDropped: 4, KindDevices: 4 + 16*maxDevices,
	KindNotBegun: 0, KindFree: 0,
}

// zygoteBounds is bodyBounds of a zygote, which sends nothing else.
var zygoteBounds = map[Kind]uint32{KindHello: maxWord, KindForked: 4, KindFailed: maxText, KindExited: 8}

// boundsTable is one of these by kind; -1: not for the server.
type boundsTable [KindFree + 1]int64

func tableOf(bounds map[Kind]uint32) *boundsTable {
	t := new(boundsTable)
	for k := range t {
		t[k] = -1
		if n, ok := bounds[Kind(k)]; ok {
			t[k] = int64(n)
		}
	}
	return t
}

var fromWorkers, fromZygotes = tableOf(bodyBounds), tableOf(zygoteBounds)

// check refuses a frame by its header. A nil table takes all.
func (t *boundsTable) check(h Header) error {
	switch {
	case t == nil || int64(h.Length) <= t[h.Kind]:
		return nil
	case t[h.Kind] < 0:
		return headerError("kind", 3, "%s is not for the server", h.Kind)
	}
	return &ProtocolError{Kind: h.Kind, Field: "length", Offset: 4, Detail: fmt.Sprintf("%d bytes, at most %d", h.Length, t[h.Kind])}
}

// patience ends a connection whose other side has begun a frame and does not
// come on with it. Only time in which the reader waits counts.
type patience struct {
	limit, grace time.Duration
	late         func(error)

	mu         sync.Mutex
	timer      *time.Timer
	waiting    bool
	since      time.Time // nothing has come since; zero behind progress
	grudging   bool      // in the grace
	have, need int
}

func (c *Conn) newPatience() *patience {
	p := &patience{limit: frameWait, grace: frameGrace, late: c.end}
	if c.opts.frameWait > 0 {
		p.limit, p.grace = c.opts.frameWait, c.opts.frameGrace
	}
	return p
}

// begin notes that the reader waits for more of a frame of which have bytes are there.
func (p *patience) begin(have, need int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	p.waiting, p.grudging, p.have, p.need = true, false, have, need
	left := max(p.limit-now.Sub(p.since), 0)
	if p.timer == nil {
		p.timer = time.AfterFunc(left, p.passed)
	} else {
		p.timer.Reset(left)
	}
}

// end notes that it does not wait any more. Without progress it was called away,
// and the time goes on.
func (p *patience) end(progress bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = false
	if progress {
		p.since = time.Time{}
	}
	p.timer.Stop()
}

func (p *patience) passed() {
	p.mu.Lock()
	if !p.waiting || time.Since(p.since) < p.limit {
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
	p.mu.Unlock()
	p.late(headerError("frame", 0, "%s", what))
}
