package stats

import (
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

type discard struct{}

func (discard) Deliver(_ *infer.Request, resp *backend.Response, _ bool) { resp.Release() }

// ended returns a request that took the given phases and was answered.
func ended(t *testing.T, err *backend.Error, why infer.Reason) *infer.Request {
	t.Helper()
	r := infer.New(discard{}, nil)
	r.BatchSize = 3
	r.Times = infer.Times{Start: 1000, Queue: 1100, ComputeStart: 1600, InputEnd: 1700, OutputStart: 2700, ComputeEnd: 2750}
	if err != nil {
		r.Fail(err, why)
	} else if e := r.Respond(&backend.Response{}, true); e != nil {
		t.Fatal(e)
	}
	r.Times.End = 3000
	return r
}

func TestFinishSuccess(t *testing.T) {
	v := NewVersion(nil)
	v.Finish(ended(t, nil, infer.NoFailure))
	s := v.Snapshot()
	want := Snapshot{Success: Duration{1, 2000}, Queue: Duration{1, 500}, ComputeInput: Duration{1, 100}, ComputeInfer: Duration{1, 1000}, ComputeOutput: Duration{1, 50}}
	if s.Success != want.Success || s.Queue != want.Queue || s.ComputeInput != want.ComputeInput || s.ComputeInfer != want.ComputeInfer || s.ComputeOutput != want.ComputeOutput {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
	if s.InferenceCount != 3 || s.LastInference == 0 || s.RequestTime.Count() != 1 {
		t.Errorf("inference count %d, last %d, histogram %d; want 3, now, 1", s.InferenceCount, s.LastInference, s.RequestTime.Count())
	}
}

func TestFinishFailure(t *testing.T) {
	for _, c := range []struct{ given, want infer.Reason }{
		{infer.Rejected, infer.Rejected}, {infer.Canceled, infer.Canceled}, {infer.Backend, infer.Backend}, {infer.Other, infer.Other}, {infer.NoFailure, infer.Backend},
	} {
		v := NewVersion(nil)
		v.Finish(ended(t, backend.Errorf(backend.Internal, "no"), c.given))
		s := v.Snapshot()
		if s.Fail.Count != 1 || s.FailuresByCause[c.want] != 1 || s.Success.Count != 0 || s.InferenceCount != 0 {
			t.Errorf("reason %v: %+v", c.given, s)
		}
	}
}

func TestBatchesAreKeptBySize(t *testing.T) {
	v := NewVersion(nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for size := 1; size <= 3; size++ {
				v.Batch(size, 1, 2, 3)
			}
		})
	}
	wg.Wait()
	s := v.Snapshot()
	if len(s.Batches) != 3 || s.ExecutionCount != 12 {
		t.Fatalf("got %+v", s.Batches)
	}
	for i, b := range s.Batches {
		if b.Size != i+1 || b.ComputeInfer != (Duration{4, 8}) {
			t.Errorf("batch %d: %+v", i, b)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	h := Histogram{bounds: []int64{10, 20}}
	for _, v := range []int64{-5, 10, 11, 20, 21} {
		h.Observe(v)
	}
	s := h.snapshot()
	if s.Counts[0] != 2 || s.Counts[1] != 2 || s.Counts[2] != 1 || s.Sum != 62 {
		t.Errorf("got %+v", s)
	}
}
