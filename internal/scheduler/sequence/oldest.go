package sequence

import (
	"slices"

	"github.com/nesoserve/neso/internal/stats"
)

// formOldest makes a batch of the requests whose turn came first, by the rules
// of the dynamic batcher for requests of size 1: the largest preferred size
// that there is goes at once while the oldest request is younger than the
// delay; after that, everything that fits. It returns nil when there is nothing
// to run yet.
func (b *batcher) formOldest(now int64, l *instance) *batch {
	head := l.ready.head
	if head == nil {
		return nil
	}
	largest := b.preferred[len(b.preferred)-1]
	first := head.seq.head
	count, best, oldest := 0, 0, now
	stop, reason := false, stats.ClosedDrained
	for t := head; t != nil && !stop; t = t.next {
		e := t.seq.head
		if count == b.max {
			reason, stop = stats.ClosedFull, true
			break
		}
		if count > 0 && !b.share(first, e) {
			reason, stop = stats.ClosedShape, true
			break
		}
		count++
		oldest = min(oldest, e.queued)
		if _, ok := slices.BinarySearch(b.preferred, count); ok {
			best = count
		}
	}
	late := b.delay > 0 && now-oldest >= b.delay
	switch {
	case best > 0 && !late:
		count, reason = best, stats.ClosedPreferred
	case stop:
	case count >= largest:
		reason = stats.ClosedFull
	case late:
		reason = stats.ClosedDelay
	case b.delay == 0:
	default:
		if l.load == 0 { // else the end of its batch is the next event
			l.wait = oldest + b.delay
		}
		return nil
	}
	if l.load > 0 && count < largest {
		return nil // only a saturated batch goes ahead of time
	}
	x := b.batches.Take()
	x.Reason = reason
	for t := head; len(x.Entries) < count; t = t.next {
		x.Entries = append(x.Entries, t.seq.head)
	}
	behind(x)
	return x
}
