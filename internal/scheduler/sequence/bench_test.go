package sequence

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// quick answers at once.
type quick struct{ fake }

func (q *quick) Insist(_ int, requests []*infer.Request) {
	for _, r := range requests {
		_ = r.Request.Respond(nil, true)
	}
}

type drop struct{}

func (drop) Deliver(*infer.Request, *backend.Response, bool) {}

func benchConfig(oldest bool) *modelconfig.SequenceBatching {
	c := &modelconfig.SequenceBatching{MaxIdle: time.Minute, Controls: []modelconfig.SequenceControl{
		{Input: "S", Kind: "CONTROL_SEQUENCE_START", Datatype: tensor.Bool, False: []byte{0}, True: []byte{1}},
		{Input: "E", Kind: "CONTROL_SEQUENCE_END", Datatype: tensor.Bool, False: []byte{0}, True: []byte{1}},
		{Input: "R", Kind: "CONTROL_SEQUENCE_READY", Datatype: tensor.Bool, False: []byte{0}, True: []byte{1}},
		{Input: "C", Kind: "CONTROL_SEQUENCE_CORRID", Datatype: tensor.Uint64},
	}}
	if oldest {
		c.Oldest = &modelconfig.OldestStrategy{MaxCandidateSequences: 1024}
	}
	return c
}

func prepare(ctx context.Context, r *infer.Request, id uint64, flags backend.Flags) {
	r.Ctx, r.BatchSize, r.Correlation.Number, r.Flags = ctx, 1, id, flags
}

// BenchmarkEnqueue is one request of an open sequence through the scheduler
// alone, the request itself included.
func BenchmarkEnqueue(b *testing.B) {
	for _, oldest := range []bool{false, true} {
		b.Run(map[bool]string{false: "direct", true: "oldest"}[oldest], func(b *testing.B) {
			s := New(Options{
				Config: benchConfig(oldest), Model: "m", MaxBatchSize: 8, Executor: &quick{}, Stats: stats.NewVersion(nil),
				Allocator: heap{},
			})
			ctx := context.Background()
			inputs := []tensor.Tensor{{Name: "IN", Data: []byte{1}}}
			flags := backend.SequenceStart
			b.ReportAllocs()
			for b.Loop() {
				r := infer.New(drop{}, nil)
				prepare(ctx, r, 7, flags)
				r.Inputs = inputs[:1:1]
				flags = 0
				if err := s.Enqueue(r); err != nil {
					b.Fatal(err)
				}
			}
			_ = s.Close(ctx)
		})
	}
}

func TestAllocationCeiling(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector moves more to the heap")
	}
	for _, oldest := range []bool{false, true} {
		s := New(Options{
			Config: benchConfig(oldest), Model: "m", MaxBatchSize: 8, Executor: &quick{}, Stats: stats.NewVersion(nil),
			Allocator: heap{},
		})
		inputs := []tensor.Tensor{{Name: "IN", Data: []byte{1}}}
		flags := backend.SequenceStart
		const want = 4 // the request, its answer, its inputs with the controls, the correlation ID
		got := testing.AllocsPerRun(1000, func() {
			r := infer.New(drop{}, nil)
			prepare(t.Context(), r, 7, flags)
			r.Inputs, flags = inputs[:1:1], 0
			if err := s.Enqueue(r); err != nil {
				t.Fatal(err)
			}
		})
		if got > want {
			t.Errorf("oldest %v: %v allocations a request, want %d", oldest, got, want)
		}
		_ = s.Close(t.Context())
	}
}

// BenchmarkEnqueueMany has 1,000 sequences at once.
func BenchmarkEnqueueMany(b *testing.B) {
	for _, oldest := range []bool{false, true} {
		b.Run(map[bool]string{false: "direct", true: "oldest"}[oldest], func(b *testing.B) {
			s := New(Options{
				Config: benchConfig(oldest), Model: "m", MaxBatchSize: 1024, Executor: &quick{}, Stats: stats.NewVersion(nil),
				Allocator: heap{},
			})
			ctx := context.Background()
			var next atomic.Uint64
			b.ReportAllocs()
			b.SetParallelism(500)
			b.RunParallel(func(pb *testing.PB) {
				id, flags := next.Add(1), backend.SequenceStart
				done := make(chan struct{}, 1)
				end := func(*infer.Request) { done <- struct{}{} }
				for pb.Next() {
					r := infer.New(drop{}, end)
					prepare(ctx, r, id, flags)
					flags = 0
					if err := s.Enqueue(r); err != nil {
						panic(err)
					}
					<-done
				}
			})
			_ = s.Close(ctx)
		})
	}
}
