package stats

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/tensor"
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
	want := Snapshot{
		Success: Duration{1, 2000}, Queue: Duration{1, 500}, ComputeInput: Duration{1, 100}, ComputeInfer: Duration{1, 1000},
		ComputeOutput: Duration{1, 50},
	}
	if s.Success != want.Success || s.Queue != want.Queue || s.ComputeInput != want.ComputeInput || s.ComputeInfer != want.ComputeInfer ||
		s.ComputeOutput != want.ComputeOutput {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
	if s.InferenceCount != 3 || s.LastInference == 0 || s.RequestTime.Count() != 1 {
		t.Errorf("inference count %d, last %d, histogram %d; want 3, now, 1", s.InferenceCount, s.LastInference, s.RequestTime.Count())
	}
}

func TestFinishFailure(t *testing.T) {
	for _, c := range []struct{ given, want infer.Reason }{
		{infer.Rejected, infer.Rejected},
		{infer.Canceled, infer.Canceled},
		{infer.Backend, infer.Backend},
		{infer.Other, infer.Other},
		{infer.NoFailure, infer.Backend},
	} {
		v := NewVersion(nil)
		v.Finish(ended(t, backend.Errorf(backend.Internal, "no"), c.given))
		s := v.Snapshot()
		if s.Fail.Count != 1 || s.FailuresByCause[c.want] != 1 || s.Success.Count != 0 || s.InferenceCount != 0 {
			t.Errorf("reason %v: %+v", c.given, s)
		}
	}
}

// A client tells by it whether a model runs at all, which one whose requests all
// fail does.
func TestAnExecutionThatFailsIsTheLastInference(t *testing.T) {
	v := NewVersion(nil)
	v.Finish(ended(t, backend.Errorf(backend.Internal, "no"), infer.Backend))
	if last := v.Snapshot().LastInference; last != 0 {
		t.Errorf("without an execution: %d, want 0", last)
	}
	v.Batch(1, 1, 2, 3)
	if v.Snapshot().LastInference == 0 {
		t.Error("after an execution: 0, want now")
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

func TestFirstResponsesAreWholeMilliseconds(t *testing.T) {
	v := NewVersion(nil, -1, 0, 2.5)
	for _, ns := range []int64{900_000, 1_999_999, 2_600_000, 3_000_000} {
		v.FirstResponse(ns)
	}
	got := v.Snapshot().FirstResponse
	want := HistogramSnapshot{Bounds: []int64{-1_000_000, 0, 2_500_000}, Counts: []uint64{0, 1, 2, 1}, Sum: 6_000_000}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
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

func TestResponsesAreCountedByWhatTheyAre(t *testing.T) {
	r := infer.New(discard{}, nil)
	now := backend.Now()
	r.Times.Start, r.Times.ComputeStart, r.Times.Response = now-3_000_000, now-2_000_000, now-1_000_000
	some := []tensor.Tensor{{Name: "OUT"}}
	v := NewVersion(nil)
	for i, resp := range []*backend.Response{
		{Outputs: some, OutputStart: now - 400_000},
		{Outputs: some},
		{OutputStart: now - 400_000},
		{},
		nil,
		{Err: backend.Errorf(backend.Internal, "no")},
		{Err: backend.Errorf(backend.Internal, "no"), OutputStart: now - 400_000},
		{Err: backend.Errorf(backend.Cancelled, "no")},
		{Outputs: some, OutputStart: now - 1_500_000}, // before this response was begun
	} {
		v.Response(r, resp, i)
	}
	var got []string
	for _, s := range v.Snapshot().Responses {
		whole := s.Success.Nanos + s.Fail.Nanos + s.Empty.Nanos + s.Cancel.Nanos
		got = append(got, fmt.Sprintf(
			"%d: infer %d, output %d, success %d, fail %d, empty %d, cancel %d; since the last one %v, sum %v, output %v", s.Index,
			s.ComputeInfer.Count, s.ComputeOutput.Count, s.Success.Count, s.Fail.Count, s.Empty.Count, s.Cancel.Count,
			whole >= 1_000_000 && whole <= uint64(backend.Now()-r.Times.Response), s.ComputeInfer.Nanos+s.ComputeOutput.Nanos == whole,
			s.ComputeOutput.Nanos >= 400_000))
	}
	want := []string{
		"0: infer 1, output 1, success 1, fail 0, empty 0, cancel 0; since the last one true, sum true, output true",
		"1: infer 1, output 1, success 1, fail 0, empty 0, cancel 0; since the last one true, sum true, output false",
		"2: infer 1, output 1, success 1, fail 0, empty 0, cancel 0; since the last one true, sum true, output true",
		"3: infer 1, output 0, success 0, fail 0, empty 1, cancel 0; since the last one true, sum true, output false",
		"4: infer 1, output 0, success 0, fail 0, empty 1, cancel 0; since the last one true, sum true, output false",
		"5: infer 1, output 0, success 0, fail 1, empty 0, cancel 0; since the last one true, sum true, output false",
		"6: infer 1, output 1, success 0, fail 1, empty 0, cancel 0; since the last one true, sum true, output true",
		"7: infer 0, output 0, success 0, fail 0, empty 0, cancel 1; since the last one true, sum false, output false",
		"8: infer 1, output 1, success 1, fail 0, empty 0, cancel 0; since the last one true, sum true, output false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want, got:\n%s", diff)
	}
}

func TestQuantile(t *testing.T) {
	h := HistogramSnapshot{Bounds: []int64{10, 20, 40}, Counts: []uint64{0, 10, 10, 0}}
	for q, want := range map[float64]float64{0: 10, 0.25: 15, 0.5: 20, 0.75: 30, 1: 40} {
		if got, ok := h.Quantile(q); !ok || got != want {
			t.Errorf("quantile %v: %v, %v, want %v", q, got, ok, want)
		}
	}
	if got, _ := (HistogramSnapshot{Bounds: []int64{10}, Counts: []uint64{0, 5}}).Quantile(0.5); got != 10 {
		t.Errorf("above the last bound: %v, want the bound", got)
	}
	if _, ok := (HistogramSnapshot{Bounds: []int64{10}, Counts: []uint64{0, 0}}).Quantile(0.5); ok {
		t.Error("a quantile of nothing")
	}
	d := h.Since(HistogramSnapshot{Bounds: h.Bounds, Counts: []uint64{0, 4, 10, 0}})
	if d.Count() != 6 || h.Count() != 20 {
		t.Errorf("since: %v of %v", d.Counts, h.Counts)
	}
}

// TestReported: what the model says of its responses is told in place of what was measured.
func TestReported(t *testing.T) {
	v := NewVersion(nil)
	v.Response(ended(t, nil, infer.NoFailure), nil, 7)
	if s := v.Snapshot(); len(s.Responses) != 1 || s.Responses[0].Index != 7 {
		t.Fatalf("measured: %+v", s.Responses)
	}
	for _, r := range []backend.ResponseReport{
		{Took: 1500, Output: 1000},
		{Took: 10, Output: 0, Empty: true},
		{Took: 20, Output: 5, Failed: true},
		{Took: 30, Output: 7, Failed: true, Empty: true},
		{Took: 40, Output: 40, Failed: true, Cancelled: true},
		{Index: 2, Took: 3, Output: 1},
	} {
		v.Reported(r)
	}
	want := []ResponseSnapshot{
		{
			Index: 0, ComputeInfer: Duration{4, 500 + 10 + 15 + 30}, ComputeOutput: Duration{2, 1005}, Success: Duration{1, 1500},
			Fail: Duration{2, 50}, Empty: Duration{1, 10}, Cancel: Duration{1, 40},
		},
		{Index: 2, ComputeInfer: Duration{1, 2}, ComputeOutput: Duration{1, 1}, Success: Duration{1, 3}},
	}
	if d := cmp.Diff(want, v.Snapshot().Responses); d != "" {
		t.Error(d)
	}
}
