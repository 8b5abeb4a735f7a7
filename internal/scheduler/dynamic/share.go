package dynamic

// A model whose batches take long is served best by batches of equal size: one
// on each instance and one that waits, so that no instance does. Left to
// themselves they do not come about: of 32 clients that each send the next
// request after an answer, two instances that take whatever waits end up with 30
// in one batch and 2 that go one by one, over and over, since whoever is answered
// first finds an idle instance and goes alone.
//
// So, where no delay, smaller preferred size, priority or time-out is configured
// and batches take slowBatch and more:
//   - an instance takes its share of what waits and runs, not more (share). A share
//     is left to wait only if requests come as others are answered: of a burst
//     each instance takes its part;
//   - if less than that waits after a batch, it lingers for the requests of those
//     who were just answered, a thirty-second of the time of a long batch at most.
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
	clients int     // requests that waited and ran when batches ended, about the most of late
	ended   []int64 // by instance, when its last batch ended
	long    int64   // ns that a long batch takes: the longest, each later one counts an eighth more
	slow    bool    // that is slowBatch or more
	until   int64   // when lingering ends
	enough  int     // requests that end it before
	part    int     // the share when a batch last ended
	parts   int     // of how many that is one
	seen    uint64  // requests that had arrived by then
}

// finished notes the end of a batch, whose requests have left b.running. Of the
// time since it was sent it may have waited behind another one.
func (b *batcher) finished(now int64, x *batch) {
	took := now - max(x.Sent, b.ended[x.Instance])
	b.ended[x.Instance] = now
	answered := len(x.Entries)
	b.gathered(b.len + b.running)
	b.running -= answered
	b.long = max(took, b.long-b.long/8)
	b.learnt(now, x, took)
	returning := min(answered, int(b.arrived-b.seen))
	b.seen, b.parts = b.arrived, b.here
	if answered > 1 && 2*returning >= answered { // of one alone nobody can tell who came in its place
		b.parts++
	}
	if b.slow = b.patient && b.long >= slowBatch; b.slow {
		all := b.len + b.running + returning
		b.part = (all + b.parts - 1) / b.parts
		b.enough = min(all/b.parts, b.len+returning) // no more can come back
		b.until = now + min(b.long/lingerPart, lingerLimit)
	}
}

// share is how many requests the next batch may have.
func (b *batcher) share() int {
	if !b.slow {
		return unlimitedCap
	}
	return max(b.part, (b.len+b.running+b.parts-1)/b.parts)
}

// lingers returns until when a batch of so many requests, which is all there is,
// waits for more; 0 for not at all.
func (b *batcher) lingers(now int64, count int) int64 {
	if !b.slow || now >= b.until || count >= b.enough {
		return 0
	}
	return b.until
}
