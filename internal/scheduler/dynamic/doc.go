// Package dynamic is the dynamic batcher: one queue per model version, from
// which batches go to idle instances.
//
// Open batcher.go first: it decides, without clock, goroutine or lock.
// enqueue.go is hop 4; loop.go feeds the decisions with events and does what
// they say. queue.go holds priority levels and deadlines, form.go the rules by
// which a batch closes, ahead.go those by which it goes to a busy instance.
// A model's own say in a batch is in strategy.go and ask.go.
// Responses keep their order by scheduler.Order.
// testdata/*.txt are transcripts of the decisions.
package dynamic
