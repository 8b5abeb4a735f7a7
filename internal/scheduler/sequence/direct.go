package sequence

import "github.com/nesoserve/neso/internal/stats"

// formDirect makes a batch of an instance's slots, in their order, so that a
// sequence keeps its place in the batch. What lies below the highest slot
// used and has no request, or none that fits, is filled up with nil. It returns
// nil when there is nothing to run yet.
func (b *batcher) formDirect(now int64, l *lane) *batch {
	ready, last, oldest := 0, -1, now
	var first *entry
	for i, t := range l.slots {
		if t.seq == nil || t.seq.head == nil || t.running {
			continue
		}
		e := t.seq.head
		if first == nil {
			first = e
		}
		ready++
		oldest = min(oldest, e.queued)
		if b.same.Same(first.request, e.request) {
			last = i
		}
	}
	if ready == 0 {
		return nil
	}
	reason := stats.ClosedDrained
	switch {
	case ready == len(l.slots):
		reason = stats.ClosedFull
	case b.delay <= 0 || b.utilization <= 0:
	case float32(ready) >= b.utilization*float32(b.max):
		reason = stats.ClosedUtilization
	case now-oldest >= b.delay:
		reason = stats.ClosedDelay
	default:
		l.wait = oldest + b.delay
		return nil
	}
	x := b.batch()
	x.reason = reason
	for _, t := range l.slots[:last+1] {
		if t.seq != nil && t.seq.head != nil && !t.running && b.same.Same(first.request, t.seq.head.request) {
			x.entries = append(x.entries, t.seq.head)
		} else {
			x.entries = append(x.entries, nil)
		}
	}
	x.behind()
	return x
}

// behind finds whether a batch of all that was ready would be larger if more
// requests of a sequence could be in flight.
func (x *batch) behind() {
	if x.reason != stats.ClosedDrained {
		return
	}
	for _, e := range x.entries {
		if e != nil && e.seq.len > 1 {
			x.reason = stats.ClosedSequence
			return
		}
	}
}
