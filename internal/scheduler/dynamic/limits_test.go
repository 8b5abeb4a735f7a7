package dynamic

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/stats"
)

// sharing returns the instances of a model that need one unit of R.
func sharing(t *testing.T, l *ratelimit.Limiter, instances int) *ratelimit.Group {
	t.Helper()
	all := make([]ratelimit.Instance, instances)
	for i := range all {
		all[i] = ratelimit.Instance{Priority: 1, Needs: []ratelimit.Need{{Name: "R", Count: 1}}}
	}
	g, err := l.Register(all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func TestTwoModelsShareAResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.New(nil)
		a := start(t, &fake{instances: 2, limits: sharing(t, l, 2), took: taking(10 * time.Millisecond)}, 4, modelconfig.DynamicBatching{})
		policy := modelconfig.QueuePolicy{DefaultTimeout: 4 * time.Millisecond, AllowTimeoutOverride: true}
		b := start(t, &fake{instances: 1, depth: 2, limits: sharing(t, l, 1), took: taking(10 * time.Millisecond)}, 4,
			modelconfig.DynamicBatching{
				PriorityLevels: 2, DefaultPriorityLevel: 1, Policies: map[uint64]modelconfig.QueuePolicy{2: policy},
			})
		a.send("a1")
		a.send("a2") // an instance is idle, but not what it needs
		ctx, cancel := context.WithCancel(t.Context())
		b.send("b1", func(r *infer.Request) { r.Priority = 1 })
		b.send("gone", func(r *infer.Request) { r.Ctx, r.Priority = ctx, 1 })
		b.send("late", func(r *infer.Request) { r.Priority = 2 })
		b.send("b2", func(r *infer.Request) { r.Priority = 1 })
		time.Sleep(5 * time.Millisecond)
		cancel()
		time.Sleep(25 * time.Millisecond)
		a.log.expect(t, `10ms a1 ok`, `20ms a2 ok`)
		b.log.expect(t, `4ms late Unavailable "Request timeout expired" REJECTED`, `5ms gone Cancelled "" CANCELED`, `30ms b1 ok`, `30ms b2 ok`)
		if l.Usage()[0].Used != 0 {
			t.Error("the resource is still held")
		}

		// A model that is unloaded while it waits answers, and leaves the line.
		a.send("a3")
		b.send("b3", func(r *infer.Request) { r.Priority = 1 })
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		a.send("a4")
		time.Sleep(30 * time.Millisecond)
		b.log.mu.Lock()
		if last := b.log.lines[len(b.log.lines)-1]; last != `30ms b3 Unavailable "[request id: b3] Server is stopping, scheduler for model `+
			`has stopped accepting new inference requests" OTHER` {
			t.Error(last)
		}
		b.log.mu.Unlock()
		a.log.expect(t, `10ms a1 ok`, `20ms a2 ok`, `40ms a3 ok`, `50ms a4 ok`)
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLimitsHammer has clients that give up in front of models that share less
// than they need: all requests are answered, and nothing is held at the end.
func TestLimitsHammer(t *testing.T) {
	l := ratelimit.New([]ratelimit.Capacity{{Name: "R", Count: 2, Device: ratelimit.EveryDevice}})
	var sent, answered, inside atomic.Int64
	var models []*Scheduler
	for k := range 3 {
		f := &fake{instances: 1 + k, limits: sharing(t, l, 1+k)}
		f.took = func(int, []*infer.Request) time.Duration {
			if inside.Add(1) > 2 {
				t.Error("more run than there are units")
			}
			runtime.Gosched()
			inside.Add(-1)
			return 0
		}
		models = append(models, New(Options{Config: &modelconfig.DynamicBatching{}, MaxBatchSize: 4, Executor: f, Stats: stats.NewVersion(nil)}))
	}
	var wg sync.WaitGroup
	for k := range 12 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(k), 1))
			s := models[k%3]
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(300))*time.Microsecond)
				done := make(chan struct{})
				r := infer.New(counter{&answered}, func(*infer.Request) { close(done) })
				with(ctx, r).Background = rnd.IntN(2) == 0
				sent.Add(1)
				if err := s.Enqueue(r); err != nil {
					t.Error(err)
				}
				<-done
				cancel()
			}
		})
	}
	wg.Wait()
	for _, s := range models {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if u := l.Usage()[0]; u.Used != 0 || sent.Load() != answered.Load() {
		t.Errorf("%d units held, %d of %d requests answered", u.Used, answered.Load(), sent.Load())
	}
}

// The first instance that needs something comes and goes, under load: no instance
// runs two batches at once, and nobody waits for ever.
func TestLimitsComeAndGo(t *testing.T) {
	l := ratelimit.New(nil)
	rival := sharing(t, l, 1)
	g, err := l.Register([]ratelimit.Instance{{}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	f := &fake{instances: 1, limits: g, took: func(int, []*infer.Request) time.Duration { runtime.Gosched(); return 0 }}
	s := New(Options{Config: &modelconfig.DynamicBatching{}, MaxBatchSize: 2, Executor: f, Stats: stats.NewVersion(nil)})
	f.instances = 2
	var answered, over atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for over.Load() == 0 {
				done := make(chan struct{})
				r := infer.New(counter{&answered}, func(*infer.Request) { close(done) })
				if err := s.Enqueue(with(t.Context(), r)); err != nil {
					t.Error(err)
				}
				<-done
			}
		})
	}
	for range 200 {
		if err := g.Add(map[int]ratelimit.Instance{1: {Needs: []ratelimit.Need{{Name: "R", Count: 1}}}}); err != nil {
			t.Fatal(err)
		}
		s.Change([]int{1}, nil, nil)
		ran := rival.Ask(0)
		for n := answered.Load(); answered.Load() < n+5; {
			runtime.Gosched()
		}
		var others ratelimit.Turns
		if ran || rival.Ask(0) {
			rival.Release(0, &others)
		} else {
			rival.Withdraw(&others)
		}
		others.Tell()
		left := make(chan struct{})
		s.Change(nil, []int{1}, func(int) { close(left) })
		<-left
		g.Remove(1)
	}
	over.Store(1)
	wg.Wait()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if f.worst > 1 || g.Limited() || l.Usage()[0].Used != 0 {
		t.Errorf("%d batches at once, %v", f.worst, l.Usage())
	}
}
