package dynamic

import (
	"math"
	"slices"

	"github.com/nesoserve/neso/internal/stats"
)

// formed is a decision about the first entries of the queue: send count of
// them, or wait, or ask the model first.
type formed struct {
	count, size int
	reason      stats.Closing
	wait        int64 // not 0: until then
	asks        bool
}

// form decides about the next batch. The queue is not empty, and an instance
// could take the batch.
//
// Requests are collected in queue order until one does not fit. stats.ClosedPreferred sizes
// passed on the way are remembered, the largest wins. As long as the oldest
// request is younger than the delay such a size is sent at once; after that
// everything collected goes, since waiting further for the rest helps nobody.
// The batch gets no larger than most.
func (b *batcher) form(now int64, most int) formed {
	largest, full := b.preferred[len(b.preferred)-1], stats.ClosedFull
	if most < b.max {
		largest, full = min(largest, most), stats.ClosedObjective
	}
	var all, best formed
	oldest, stop, unknown, share := int64(math.MaxInt64), false, false, b.share()
	first := b.first()
walk:
	for e := first; e != nil; e = b.after(e) {
		if all.count > 0 {
			if all.count >= share {
				all.reason, stop = stats.ClosedShare, true
				break
			}
			if all.size+e.size > largest && best.count == 0 {
				best = formed{count: all.count, size: all.size, reason: full}
			}
			if all.size+e.size > most {
				all.reason, stop = full, true
				break
			}
			if !b.same.Same(first.request, e.request) {
				all.reason, stop = stats.ClosedShape, true
				break
			}
		}
		switch b.says(all.count, e) {
		case joins:
		case refuses:
			all.reason, stop = stats.ClosedStrategy, true
			break walk
		case silent:
			unknown = true
			break walk
		}
		all.count++
		all.size += e.size
		oldest = min(oldest, e.queued)
		if _, ok := slices.BinarySearch(b.preferred, all.size); ok {
			best = formed{count: all.count, size: all.size, reason: stats.ClosedPreferred}
			if all.size >= b.max { // preferred or not, it gets no larger
				best.reason = stats.ClosedFull
			}
		}
	}
	late := b.delay > 0 && now-oldest >= b.delay
	if unknown && !b.goesOn(all, late) {
		return formed{asks: true}
	}
	switch {
	case best.count > 0 && !late:
		return best
	case stop:
	case all.size >= largest:
		all.reason = full
	case b.Goal != nil:
		return b.aimed(now, oldest, all)
	case late:
		all.reason = stats.ClosedDelay
	case b.delay == 0:
		all.reason, all.wait = stats.ClosedDrained, b.lingers(now, all.count)
	default:
		all.wait = oldest + b.delay
	}
	return all
}
