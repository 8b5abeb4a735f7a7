package dynamic

import (
	"math"
	"slices"
)

// Reason says why a batch was closed.
type Reason uint8

// The reasons, in the order of the counters.
const (
	Full         Reason = iota // one more request would have been too much
	Preferred                  // a preferred size was reached
	Delayed                    // the oldest request had waited long enough
	Incompatible               // the next request has other shapes or inputs
	Drained                    // without a delay: all there was
	reasons
)

// String returns the reason as a label value.
func (r Reason) String() string {
	return [...]string{"full", "preferred", "delay", "incompatible", "drained"}[r]
}

// formed is a decision about the first entries of the queue: send count of
// them, or wait.
type formed struct {
	count, size int
	reason      Reason
	wait        int64 // not 0: until then
}

// form decides about the next batch. The queue is not empty, and an instance
// could take the batch.
//
// Requests are collected in queue order until one does not fit. Preferred sizes
// passed on the way are remembered, the largest wins. As long as the oldest
// request is younger than the delay such a size is sent at once; after that
// everything collected goes, since waiting further for the rest helps nobody.
func (b *batcher) form(now int64) formed {
	largest := b.preferred[len(b.preferred)-1]
	var all, best formed
	oldest, stop := int64(math.MaxInt64), false
	first := b.first()
	for e := first; e != nil; e = b.after(e) {
		if all.count > 0 {
			if all.size+e.size > largest && best.count == 0 {
				best = formed{count: all.count, size: all.size, reason: Full}
			}
			if all.size+e.size > b.max {
				all.reason, stop = Full, true
				break
			}
			if !b.same.Same(first.request, e.request) {
				all.reason, stop = Incompatible, true
				break
			}
		}
		all.count++
		all.size += e.size
		oldest = min(oldest, e.queued)
		if _, ok := slices.BinarySearch(b.preferred, all.size); ok {
			best = formed{count: all.count, size: all.size, reason: Preferred}
		}
	}
	late := b.delay > 0 && now-oldest >= b.delay
	switch {
	case best.count > 0 && !late:
		return best
	case stop:
	case all.size >= largest:
		all.reason = Full
	case late:
		all.reason = Delayed
	case b.delay == 0:
		all.reason = Drained
	default:
		all.wait = oldest + b.delay
	}
	return all
}
