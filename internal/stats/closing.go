package stats

// Closing says why a batcher closed a batch: why it did not wait for one more
// request.
type Closing uint8

// The reasons, in the order of the counters.
const (
	ClosedFull        Closing = iota // the next request would have been too much, or every slot has one
	ClosedPreferred                  // a preferred size was reached
	ClosedUtilization                // enough slots of the direct strategy had a request
	ClosedDelay                      // the oldest request had waited for the queue delay
	ClosedShape                      // the next request has other shapes, or other inputs
	ClosedSequence                   // more requests wait, behind others of their sequence that are in the batch
	ClosedDrained                    // no delay is configured, and this was all there was
	ClosedShare                      // the rest is for the other instances of a model whose batches take long
	ClosedStrategy                   // the model's own batching strategy refused the next request
	ClosedObjective                  // a larger one would have kept its oldest request too long
	closings
)

// String returns the reason as a label value.
func (c Closing) String() string {
	return [...]string{"full", "preferred", "utilization", "delay", "shape", "sequence", "drained", "share", "strategy", "objective"}[c]
}

// FormsBatches says that the version has a batcher: what it closes is shown.
func (v *Version) FormsBatches() { v.batcher.Store(true) }

// Closed counts a batch that a batcher has closed.
func (v *Version) Closed(why Closing) { v.closed[why].Add(1) }

// closedBatches reads the counters; nil for a version without a batcher.
func (v *Version) closedBatches() map[Closing]uint64 {
	if !v.batcher.Load() {
		return nil
	}
	all := make(map[Closing]uint64, closings)
	for i := range v.closed {
		all[Closing(i)] = v.closed[i].Load()
	}
	return all
}
