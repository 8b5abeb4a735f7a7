package stats

import (
	"maps"
	"slices"

	"github.com/nesoserve/neso/internal/infer"
)

// Duration is a count and the sum of its nanoseconds.
type Duration struct{ Count, Nanos uint64 }

func (d *duration) snapshot() Duration {
	return Duration{Count: d.count.Load(), Nanos: d.ns.Load()}
}

// Snapshot is everything counted, at one moment.
type Snapshot struct {
	LastInference   int64 // ms since the Unix epoch, 0 for never
	InferenceCount  uint64
	ExecutionCount  uint64
	Pending         int64
	Warmups         uint64
	Restarts        uint64 // of workers that died
	Coalesced       uint64 // answered with the execution of an identical request
	Success, Fail   Duration
	Queue           Duration
	ComputeInput    Duration
	ComputeInfer    Duration
	ComputeOutput   Duration
	CacheHit        Duration
	CacheMiss       Duration
	FailuresByCause map[infer.Reason]uint64
	OddOutputs      map[string]uint64  // see OddOutput; nil for none
	BatchesClosed   map[Closing]uint64 // nil for a version without a batcher
	Batches         []BatchSnapshot    // by size
	Responses       []ResponseSnapshot // by index

	RequestTime, QueueTime, InputTime, InferTime, OutputTime HistogramSnapshot // ns
	FirstResponse                                            HistogramSnapshot // ns
	BatchSize                                                HistogramSnapshot
}

// BatchSnapshot is what executions of one batch size took.
type BatchSnapshot struct {
	Size                                      int
	ComputeInput, ComputeInfer, ComputeOutput Duration
}

// ResponseSnapshot is what the responses with one index took.
type ResponseSnapshot struct {
	Index                                                     int
	ComputeInfer, ComputeOutput, Success, Fail, Empty, Cancel Duration
}

// Snapshot reads all counters. They are read one after the other, so a request
// that ends meanwhile may be in some and not in others.
func (v *Version) Snapshot() Snapshot {
	s := v.Totals()
	v.mu.Lock()
	defer v.mu.Unlock()
	for size, c := range v.batches {
		s.Batches = append(s.Batches, BatchSnapshot{size, c.input.snapshot(), c.infer.snapshot(), c.output.snapshot()})
	}
	responses := v.responses
	if len(v.reported) > 0 {
		responses = v.reported
	}
	for i, c := range responses {
		s.Responses = append(s.Responses, ResponseSnapshot{
			i, c.infer.snapshot(), c.output.snapshot(), c.success.snapshot(), c.fail.snapshot(), c.empty.snapshot(), c.cancel.snapshot(),
		})
	}
	slices.SortFunc(s.Batches, func(a, b BatchSnapshot) int { return a.Size - b.Size })
	slices.SortFunc(s.Responses, func(a, b ResponseSnapshot) int { return a.Index - b.Index })
	return s
}

// Activity changes whenever something was counted that Totals shows, and is much
// cheaper.
type Activity struct {
	events uint64
	// Pending is how many requests wait.
	Pending int64
}

// Activity returns the present one.
func (v *Version) Activity() Activity {
	return Activity{
		v.success.count.Load() + v.fail.count.Load() + v.executionCount.Load() + v.warmups.Load() + v.restarts.Load() +
			v.cacheHit.count.Load() + v.cacheMiss.count.Load(), v.pending.Load(),
	}
}

// Totals is Snapshot without what no metric shows: batch sizes and response
// indices, of which there may be thousands.
func (v *Version) Totals() Snapshot {
	s := Snapshot{
		LastInference:   v.lastInference.Load(),
		InferenceCount:  v.inferenceCount.Load(),
		ExecutionCount:  v.executionCount.Load(),
		Pending:         v.pending.Load(),
		Warmups:         v.warmups.Load(),
		Restarts:        v.restarts.Load(),
		Coalesced:       v.coalesced.Load(),
		Success:         v.success.snapshot(),
		Fail:            v.fail.snapshot(),
		Queue:           v.queue.snapshot(),
		ComputeInput:    v.input.snapshot(),
		ComputeInfer:    v.infer.snapshot(),
		ComputeOutput:   v.output.snapshot(),
		CacheHit:        v.cacheHit.snapshot(),
		CacheMiss:       v.cacheMiss.snapshot(),
		FailuresByCause: map[infer.Reason]uint64{},
		BatchesClosed:   v.closedBatches(),
		RequestTime:     v.requestTime.snapshot(),
		QueueTime:       v.queueTime.snapshot(),
		InputTime:       v.inputTime.snapshot(),
		InferTime:       v.inferTime.snapshot(),
		OutputTime:      v.outputTime.snapshot(),
		FirstResponse:   v.firstResponse.snapshot(),
		BatchSize:       v.batchSize.snapshot(),
	}
	for why := infer.Other; why <= infer.Backend; why++ {
		s.FailuresByCause[why] = v.failures[why].Load()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s.OddOutputs = maps.Clone(v.oddOutputs)
	return s
}
