// Package scheduler is hop 4 of a request: it decides when requests run, and
// together with which others. It holds the contracts between a model version,
// its scheduler and its instances, the default scheduler, and the rules about
// queues, batches and the order of responses that several schedulers share.
//
// Open scheduler.go first, then enqueue.go; the dynamic batcher is the package
// below.
package scheduler
