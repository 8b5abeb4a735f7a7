// Package stats owns the numbers of a loaded version: the only counters from
// which statistics, metrics and logs are made. Open stats.go first, then
// snapshot.go for what readers see.
package stats

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// Version counts for one loaded version of a model. Its methods are safe for
// concurrent use and, apart from the first sight of a batch size or response
// index, do not allocate.
type Version struct {
	pending        atomic.Int64
	lastInference  atomic.Int64 // ms since the Unix epoch
	inferenceCount atomic.Uint64
	executionCount atomic.Uint64
	failures       [reasonCount]atomic.Uint64

	success, fail, queue, input, infer, output duration
	cacheHit, cacheMiss                        duration

	requestTime, queueTime, inputTime, inferTime, outputTime, firstResponse Histogram
	batchSize                                                               Histogram

	warmups, coalesced, restarts atomic.Uint64
	oddOutputs                   map[string]uint64 // guarded by mu

	closed  [closings]atomic.Uint64
	batcher atomic.Bool

	observer Observer

	mu        sync.Mutex
	batches   map[int]*batchCounters // guarded by mu
	responses map[int]*responseCounters
	reported  map[int]*responseCounters // what the model says itself of its responses
}

const reasonCount = int(infer.Backend) + 1

// duration is a count with the sum of nanoseconds.
type duration struct{ count, ns atomic.Uint64 }

func (d *duration) add(ns int64) {
	d.count.Add(1)
	if ns > 0 {
		d.ns.Add(uint64(ns))
	}
}

type batchCounters struct{ input, infer, output duration }

type responseCounters struct{ infer, output, success, fail, empty, cancel duration }

// Observer sees the phases of each successful request, in nanoseconds; for
// summaries.
type Observer interface {
	Observe(request, queue, input, infer, output int64)
	// ObserveHit sees a request that the response cache has answered, with its time
	// in the queue and the time of the look-up.
	ObserveHit(queue, lookup int64)
	// ObserveMiss sees what look-up and insertion of an answer took.
	ObserveMiss(took int64)
}

// NewVersion returns counters at zero. The observer may be nil. Buckets are the upper
// bounds, in milliseconds, of the histogram of first responses; Triton's if there are
// none.
func NewVersion(o Observer, buckets ...float64) *Version {
	v := &Version{observer: o, batches: map[int]*batchCounters{}}
	v.responses, v.reported = map[int]*responseCounters{}, map[int]*responseCounters{}
	for _, h := range []*Histogram{&v.requestTime, &v.queueTime, &v.inputTime, &v.inferTime, &v.outputTime} {
		h.init(latencyBounds)
	}
	v.firstResponse.init(firstResponse(buckets))
	v.batchSize.init(batchSizeBounds)
	return v
}

// Enqueued counts a request as pending; Dequeued ends that.
func (v *Version) Enqueued() { v.pending.Add(1) }

// Dequeued says that a pending request now executes, or was dropped.
func (v *Version) Dequeued() { v.pending.Add(-1) }

// Observer returns what NewVersion was given.
func (v *Version) Observer() Observer { return v.observer }

// Restarted counts a start of a worker in place of one that died.
func (v *Version) Restarted() { v.restarts.Add(1) }

// Warmup counts a warm-up run, apart from the statistics.
func (v *Version) Warmup() { v.warmups.Add(1) }

// OddOutput counts a response in which a configured output is missing, or not as
// configured. It reports whether this is the first such response for that output.
func (v *Version) OddOutput(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.oddOutputs == nil {
		v.oddOutputs = map[string]uint64{}
	}
	v.oddOutputs[name]++
	return v.oddOutputs[name] == 1
}

// Finish counts a request that ended, from its Times and Failure. It is called
// once per request that was not refused at once.
func (v *Version) Finish(r *infer.Request) {
	t := &r.Times
	total := t.End - t.Start
	if err, why := r.Failure(); err != nil {
		v.failed(total, why)
		return
	}
	v.succeeded(total)
	if t.ComputeStart == 0 { // answered without execution
		v.finishUnexecuted(r)
		return
	}
	if took := r.Cache.Missed; took > 0 {
		v.cacheMiss.add(took)
		v.success.ns.Add(uint64(took)) // as the peer does
		if v.observer != nil {
			v.observer.ObserveMiss(took)
		}
	}
	v.executed(r, total)
}

// FinishFailed counts a request that ended and has failed, says its model, even where it
// was answered.
func (v *Version) FinishFailed(r *infer.Request) {
	why := infer.Backend
	if err, reason := r.Failure(); err != nil {
		why = reason
	}
	v.failed(r.Times.End-r.Times.Start, why)
}

func (v *Version) failed(total int64, why infer.Reason) {
	if int(why) >= reasonCount || why == infer.NoFailure {
		why = infer.Other
	}
	v.failures[why].Add(1)
	v.fail.add(total)
}

// Iterated counts an execution of a request that an iterative model is to see
// again: each counts as a request of its own does, from the same arrival on.
func (v *Version) Iterated(r *infer.Request) {
	total := r.Times.End - r.Times.Start
	v.succeeded(total)
	v.executed(r, total)
}

func (v *Version) succeeded(total int64) {
	v.success.add(total)
	v.requestTime.Observe(total)
	v.lastInference.Store(time.Now().UnixMilli())
}

// executed counts the phases of a request that took so long in all.
func (v *Version) executed(r *infer.Request, total int64) {
	v.inferenceCount.Add(uint64(r.Size()))
	queue, in, inf, out := r.Times.Phases()
	v.queue.add(queue)
	v.input.add(in)
	v.infer.add(inf)
	v.output.add(out)
	v.queueTime.Observe(queue)
	v.inputTime.Observe(in)
	v.inferTime.Observe(inf)
	v.outputTime.Observe(out)
	if v.observer != nil {
		v.observer.Observe(total, queue, in, inf, out)
	}
}

// finishUnexecuted counts a request that the response cache, or the execution
// of an identical one, has answered.
func (v *Version) finishUnexecuted(r *infer.Request) {
	t, c := &r.Times, &r.Cache
	switch {
	case c.Hit:
		queue := c.Start - t.Start
		v.queue.add(queue)
		v.queueTime.Observe(queue)
		v.cacheHit.add(c.End - c.Start)
		if v.observer != nil {
			v.observer.ObserveHit(max(0, queue), c.End-c.Start)
		}
	case c.Joined:
		v.coalesced.Add(1)
		v.queue.add(t.End - t.Queue)
		v.queueTime.Observe(t.End - t.Queue)
	}
}

// FirstResponse records the time from arrival to the first response of a
// decoupled request, in nanoseconds.
func (v *Version) FirstResponse(ns int64) { v.firstResponse.Observe(wholeMilliseconds(ns)) }

// wholeMilliseconds is what Triton observes, so that the sum is a whole number.
func wholeMilliseconds(ns int64) int64 { return ns - ns%int64(time.Millisecond) }

// Response counts one response of a decoupled model, by its index from 0; nil is
// an empty one. It took since the one before was delivered.
func (v *Version) Response(r *infer.Request, resp *backend.Response, index int) {
	c := v.countersFor(v.responses, index)
	if c == nil {
		return
	}
	begun, end := r.Times.Responding(), backend.Now()
	took := max(0, end-begun)
	if resp == nil {
		c.infer.add(took)
		c.empty.add(took)
		return
	}
	divided := begun <= resp.OutputStart && resp.OutputStart <= end
	output := int64(0)
	if divided {
		output = end - resp.OutputStart
	}
	switch {
	case resp.Err != nil && resp.Err.Code == backend.Cancelled:
		c.cancel.add(took)
	case resp.Err != nil:
		c.infer.add(took - output)
		if divided {
			c.output.add(output)
		}
		c.fail.add(took)
	case len(resp.Outputs) == 0 && !divided:
		c.infer.add(took)
		c.empty.add(took)
	default:
		c.infer.add(took - output)
		c.output.add(output)
		c.success.add(took)
	}
}

// Reported counts what the model says itself of a response. From the first one on the
// snapshots have these numbers in place of those of Response.
func (v *Version) Reported(r backend.ResponseReport) {
	c := v.countersFor(v.reported, r.Index)
	if c == nil {
		return
	}
	if r.Cancelled {
		c.cancel.add(r.Took)
		return
	}
	output := r.Output
	if r.Empty {
		output = 0
	} else {
		c.output.add(output)
	}
	c.infer.add(r.Took - output)
	switch {
	case r.Failed:
		c.fail.add(r.Took)
	case r.Empty:
		c.empty.add(r.Took)
	default:
		c.success.add(r.Took)
	}
}

// countersFor returns the counters of an index; nil where there are too many.
func (v *Version) countersFor(all map[int]*responseCounters, index int) *responseCounters {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := all[index]
	if c == nil && len(all) < maxKeys {
		c = &responseCounters{}
		all[index] = c
	}
	return c
}

// maxKeys bounds the number of batch sizes and response indices kept apart.
const maxKeys = 4096

// Batch counts one execution of the given batch size with its phases in
// nanoseconds. It is the last inference even if its requests have failed.
func (v *Version) Batch(size int, inputNs, inferNs, outputNs int64) {
	v.executionCount.Add(1)
	v.lastInference.Store(time.Now().UnixMilli())
	v.batchSize.Observe(int64(size))
	v.mu.Lock()
	c := v.batches[size]
	if c == nil {
		if len(v.batches) >= maxKeys {
			v.mu.Unlock()
			return
		}
		c = &batchCounters{}
		v.batches[size] = c
	}
	v.mu.Unlock()
	c.input.add(inputNs)
	c.infer.add(inferNs)
	c.output.add(outputNs)
}
