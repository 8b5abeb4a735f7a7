package dynamic

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/stats"
)

// eights brings requests that wait until they are eight, and then run on
// another goroutine.
func eights(tb testing.TB) (one func(), end func()) {
	s := New(Options{
		Config: &modelconfig.DynamicBatching{MaxQueueDelay: time.Minute, PreferredBatchSizes: []int{8}}, MaxBatchSize: 8,
		Executor: &none{fake: fake{instances: 1}}, Stats: stats.NewVersion(nil),
	})
	sink := counter{new(atomic.Int64)}
	ctx := context.Background()
	done := make(chan struct{}, 8)
	ended := func(*infer.Request) { done <- struct{}{} }
	n := 0
	one = func() {
		r := with(ctx, infer.New(sink, ended))
		r.Background = true
		if err := s.Enqueue(r); err != nil {
			tb.Fatal(err)
		}
		if n++; n%8 == 0 {
			for range 8 {
				<-done
			}
		}
	}
	return one, func() { _ = s.Close(ctx) }
}

// BenchmarkEnqueueBatches is one request in eight that go through the scheduler
// alone as a batch, the request itself included.
func BenchmarkEnqueueBatches(b *testing.B) {
	one, end := eights(b)
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
	end()
}

func TestAllocationCeilingOfBatches(t *testing.T) {
	one, end := eights(t)
	defer end()
	const want = 1 // the request
	if got := testing.AllocsPerRun(1600, one); got > want {
		t.Errorf("%v allocations a request, want %d", got, want)
	}
}

// BenchmarkEnqueueLimited is one request of a model under the rate limiter,
// which nobody contends with.
func BenchmarkEnqueueLimited(b *testing.B) {
	g, err := ratelimit.New(nil).Register([]ratelimit.Instance{{Priority: 1, Needs: []ratelimit.Need{{Name: "R", Count: 1}}}})
	if err != nil {
		b.Fatal(err)
	}
	s := New(Options{
		Config: &modelconfig.DynamicBatching{}, MaxBatchSize: 8, Executor: &none{fake: fake{instances: 1, limits: g}},
		Stats: stats.NewVersion(nil),
	})
	sink := counter{new(atomic.Int64)}
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Enqueue(infer.New(sink, nil))
	}
}
