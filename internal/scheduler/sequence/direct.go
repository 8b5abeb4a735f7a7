package sequence

import "github.com/nesoserve/neso/internal/stats"

// formDirect makes a batch of an instance's slots, in their order, so that a
// sequence keeps its place in the batch. What lies up to the highest slot
// with a request and has none, or none that fits, is filled up with nil, as the
// peer does: also behind the last one that fits. It returns
// nil when there is nothing to run yet.
func (b *batcher) formDirect(now int64, l *instance) *batch {
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
		last = i
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
	x := b.batches.Take()
	x.Reason = reason
	for _, t := range l.slots[:last+1] {
		if t.seq != nil && t.seq.head != nil && !t.running && b.share(first, t.seq.head) {
			x.Entries = append(x.Entries, t.seq.head)
		} else {
			x.Entries = append(x.Entries, nil)
		}
	}
	behind(x)
	return x
}

// behind finds whether a batch of all that was ready would be larger if more
// requests of a sequence could be in flight.
func behind(x *batch) {
	if x.Reason != stats.ClosedDrained {
		return
	}
	for _, e := range x.Entries {
		if e != nil && e.seq.len > 1 {
			x.Reason = stats.ClosedSequence
			return
		}
	}
}

// share reports whether two requests may be of one batch.
func (b *batcher) share(x, y *entry) bool {
	return b.same.Same(x.request, y.request) && (b.alike == nil || b.alike(x, y))
}
