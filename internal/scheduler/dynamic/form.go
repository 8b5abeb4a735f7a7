package dynamic

import (
	"math"
	"slices"

	"github.com/nesoserve/neso/internal/stats"
)

// formed is a decision about the first entries of the queue: send count of
// them, or wait.
type formed struct {
	count, size int
	reason      stats.Closing
	wait        int64 // not 0: until then
}

// form decides about the next batch. The queue is not empty, and an instance
// could take the batch.
//
// Requests are collected in queue order until one does not fit. stats.ClosedPreferred sizes
// passed on the way are remembered, the largest wins. As long as the oldest
// request is younger than the delay such a size is sent at once; after that
// everything collected goes, since waiting further for the rest helps nobody.
func (b *batcher) form(now int64) formed {
	largest := b.preferred[len(b.preferred)-1]
	var all, best formed
	oldest, stop, share := int64(math.MaxInt64), false, b.share()
	first := b.first()
	for e := first; e != nil; e = b.after(e) {
		if all.count > 0 {
			if all.count >= share {
				all.reason, stop = stats.ClosedShare, true
				break
			}
			if all.size+e.size > largest && best.count == 0 {
				best = formed{count: all.count, size: all.size, reason: stats.ClosedFull}
			}
			if all.size+e.size > b.max {
				all.reason, stop = stats.ClosedFull, true
				break
			}
			if !b.same.Same(first.request, e.request) {
				all.reason, stop = stats.ClosedShape, true
				break
			}
		}
		all.count++
		all.size += e.size
		oldest = min(oldest, e.queued)
		if _, ok := slices.BinarySearch(b.preferred, all.size); ok {
			best = formed{count: all.count, size: all.size, reason: stats.ClosedPreferred}
		}
	}
	late := b.delay > 0 && now-oldest >= b.delay
	switch {
	case best.count > 0 && !late:
		return best
	case stop:
	case all.size >= largest:
		all.reason = stats.ClosedFull
	case late:
		all.reason = stats.ClosedDelay
	case b.delay == 0:
		all.reason, all.wait = stats.ClosedDrained, b.lingers(now, all.count)
	default:
		all.wait = oldest + b.delay
	}
	return all
}
