package dynamic

import (
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/scheduler/dynamic/objective"
	"github.com/nesoserve/neso/internal/stats"
)

// A model with a latency objective has no other rules for when its batches go: how
// large they are, how long they wait and who is refused follows from what package
// objective knows. A batch is as large as its oldest request has time for. A request
// that could not be answered in time is refused when it comes; what has become too
// late in the queue, because a batch took longer than foreseen, is refused there.
type goal struct {
	*objective.Goal          // nil: none
	ends            []int64  // by instance, when its batch ends as far as known
	last            []Closed // the last batches that have ended, a ring
	next            int
}

// closedKept is how many batches are remembered.
const closedKept = 32

// Closed is a batch that has ended.
type Closed struct {
	Size int `json:"size"`
	// Reason is why it was not larger.
	Reason string `json:"reason"`
	// WaitedMS is how long its oldest request had waited, ForeseenMS how long it was
	// believed to take, TookMS how long it took.
	WaitedMS   float64 `json:"waited_ms"`
	ForeseenMS float64 `json:"foreseen_ms"`
	TookMS     float64 `json:"took_ms"`
	Late       int     `json:"late"`
}

// Explanation is what a batcher with a latency objective knows, and what its last
// batches were, the latest first.
type Explanation struct {
	Model   string `json:"model_name"`
	Version string `json:"model_version"`
	objective.Explanation
	Batches []Closed `json:"last_batches"`
}

// Explain returns nil without a latency objective.
func (s *Scheduler) Explain() *Explanation {
	s.drive.Lock()
	defer s.drive.Unlock()
	g := &s.core.goal
	if g.Goal == nil {
		return nil
	}
	e := &Explanation{Explanation: g.Explain(backend.Now()), Batches: make([]Closed, 0, len(g.last))}
	for i := range g.last {
		e.Batches = append(e.Batches, g.last[(g.next+len(g.last)-1-i)%len(g.last)])
	}
	return e
}

// aimFor gives the batcher a latency objective in place of its configured rules.
func (b *batcher) aimFor(limit time.Duration) {
	b.goal = goal{Goal: objective.New(limit, b.max), ends: make([]int64, len(b.load))}
	b.preferred, b.delay = []int{b.max}, 0
	b.patient, b.prefetch = false, false
}

// admits says whether the objective lets a request in, and if not when to try again.
func (b *batcher) admits(now int64, size int) (retry time.Duration, ok bool) {
	if b.Goal == nil {
		return 0, true
	}
	line := objective.Line{Waiting: b.waiting, Instances: b.here, Idle: b.len == 0 && b.running == 0}
	for i, n := range b.load {
		switch {
		case b.away[i]:
		case n == 0:
			line.Free = now
		case line.Free == 0 || b.ends[i] < line.Free:
			line.Free = b.ends[i]
		}
	}
	return b.Admit(now, size, line)
}

// most returns how large the next batch may be, after taking out of the queue who is
// better not answered, or comes too late; 0 once the queue is empty.
func (b *batcher) most(now int64, fx *effects) int {
	if b.Goal == nil {
		return b.max
	}
	for e := b.first(); e != nil; e = b.first() {
		if b.len == 1 && b.running == 0 {
			return b.max // it tells what a batch costs now
		}
		if n := b.Most(now, e.queued, e.size, b.waiting); n > 0 {
			return n
		}
		b.Dropped()
		b.remove(e)
		b.fail(e, fx)
	}
	return 0
}

// sent notes a batch that goes, learnt one that has ended.
func (g *goal) sent(now int64, instance, size int) {
	if g.Goal == nil {
		return
	}
	for len(g.ends) <= instance {
		g.ends = append(g.ends, 0)
	}
	g.ends[instance] = now + g.Cost(size)
}

func (b *batcher) learnt(now int64, x *batch, took int64) {
	if b.Goal == nil {
		return
	}
	answered, late, oldest := 0, 0, x.Sent
	for _, e := range x.Entries {
		if e.request == nil {
			continue
		}
		if answered++; now-e.queued > b.Limit() {
			late++
		}
		oldest = min(oldest, e.queued)
	}
	b.remember(Closed{
		Size: x.Size, Reason: x.Reason.String(), Late: late,
		WaitedMS: inMS(x.Sent - oldest), ForeseenMS: inMS(b.ends[x.Instance] - x.Sent), TookMS: inMS(took),
	})
	b.Done(x.Size, took, answered, late)
}

// aimed is form's decision about all.count requests that may go, of which the oldest
// came at a time.
func (b *batcher) aimed(now, oldest int64, all formed) formed {
	if all.reason = stats.ClosedDrained; b.running > 0 || b.len > 1 {
		all.wait = b.Wait(now, oldest, all.size)
	}
	return all
}

func inMS(ns int64) float64 { return float64(ns) / 1e6 }

func (g *goal) remember(c Closed) {
	if len(g.last) < closedKept {
		g.last = append(g.last, c)
		g.next = len(g.last) % closedKept
		return
	}
	g.last[g.next] = c
	g.next = (g.next + 1) % closedKept
}
