package dynamic

// A busy instance that may hold two batches, which it runs at once or of which it
// is so quick that one may be sent ahead (scheduler.Executor.Ahead), gets its
// second one
//   - if that is saturated: waiting could add nothing to it;
//   - of a model with one instance whose batches take less than quickBatch, if
//     nearly everybody is here and at least as many wait as run. Clients that
//     each send the next request after an answer are a certain number.
//     When those whose requests wait and run are about that many, the next request
//     comes only after the next answer, and would not be in time for this batch
//     either. Sent now, it lies in the worker's channel when the worker has answered
//     the batch before. Otherwise the worker waits while the server takes the
//     answers, the server while the worker runs, and with few clients most of the
//     time somebody sleeps.
//
// The second rule keeps batches as large as without it, half of the clients and
// more. It is for batchers that nothing tells when batches go, as in share.go.
const (
	quickBatch   = 5e5 // ns: of longer ones a slightly larger batch is worth more than a worker that need not wait
	clientsFade  = 16  // each batch takes this part off the number of clients
	clientsRange = 4   // the number give or take this part is nearly everybody
)

// gathered notes how many requests were here when a batch ended.
func (b *batcher) gathered(here int) {
	b.clients = max(here, b.clients-(b.clients+clientsFade-1)/clientsFade)
}

// ahead reports whether the batch goes to an instance that has one.
func (b *batcher) ahead(f formed) bool {
	switch {
	case f.wait != 0:
		return false
	case f.size >= b.preferred[len(b.preferred)-1]:
		return true
	case !b.patient || b.here > 1 || b.long == 0 || b.long >= quickBatch || f.count < b.running:
		return false
	}
	here, some := b.len+b.running, b.clients/clientsRange
	return b.clients-some <= here && here <= b.clients+some
}
