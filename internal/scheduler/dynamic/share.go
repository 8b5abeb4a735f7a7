package dynamic

// A model whose batches take long is served best by batches of equal size on all
// its instances. Left to themselves they do not come about: of 32 clients that
// each send the next request after an answer, two instances that take whatever
// waits end up with 30 in one batch and 2 in the other's, one by one, over and
// over, since whoever is answered first finds an idle instance and goes alone.
//
// So, where no delay, smaller preferred size, priority or time-out is configured and
// batches take slowBatch and more:
//   - an instance takes its share of what waits and runs, not more (share);
//   - after a batch it lingers for the requests of those who were just answered, a
//     thirty-second of the time that a long batch takes, until it has its share.
const (
	slowBatch    = 5e6 // ns
	lingerPart   = 32
	lingerLimit  = 5e6 // ns
	unlimitedCap = 1 << 30
)

// pace is what the batcher knows of how long batches take, and of the requests
// that instances hold.
type pace struct {
	patient bool    // nothing is configured that says when batches go
	running int     // requests that instances hold
	ended   []int64 // by instance, when its last batch ended
	long    int64   // ns that a long batch takes: the longest, each later one counts an eighth more
	slow    bool    // that is slowBatch or more
	until   int64   // when lingering ends
	enough  int     // requests that end it before
}

// finished notes the end of a batch, whose requests have left b.running. Of the
// time since it was sent it may have waited behind another one.
func (b *batcher) finished(now int64, x *batch) {
	took := now - max(x.sent, b.ended[x.slot])
	b.ended[x.slot] = now
	answered := len(x.entries)
	b.running -= answered
	b.long = max(took, b.long-b.long/8)
	if b.slow = b.patient && b.long >= slowBatch; b.slow {
		// No more can come than were just answered, and of all that are about each
		// instance has its share.
		all := b.len + b.running + answered
		b.enough = min((all+len(b.load)-1)/len(b.load), b.len+answered)
		b.until = now + min(b.long/lingerPart, lingerLimit)
	}
}

// share is how many requests the next batch may have.
func (b *batcher) share() int {
	if !b.slow {
		return unlimitedCap
	}
	return max(b.enough, (b.len+b.running+len(b.load)-1)/len(b.load))
}

// lingers returns until when a batch of so many requests, which is all there is,
// waits for more; 0 for not at all.
func (b *batcher) lingers(now int64, count int) int64 {
	if !b.slow || now >= b.until || count >= b.enough {
		return 0
	}
	return b.until
}
