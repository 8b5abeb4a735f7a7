package dynamic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/stats"
)

// fake is an executor that takes a time for each batch and answers.
type fake struct {
	instances, depth int
	limits           *ratelimit.Group
	took             func(instance int, batch []*infer.Request) time.Duration
	back             func(instance int, batch []*infer.Request) bool // gives it back; nil: never
	up               func(instance int) bool                         // nil: always
	onUp             func()

	mu      sync.Mutex
	batches []string
	busy    []int
	worst   int
}

func (f *fake) Instances() int           { return f.instances }
func (f *fake) Depth() int               { return max(1, f.depth) }
func (f *fake) Limits() *ratelimit.Group { return f.limits }

func (f *fake) Ahead(int) bool { return false }

func (f *fake) Up(i int) bool { return f.up == nil || f.up(i) }

func (f *fake) OnUp(up func()) { f.onUp = up }

func (f *fake) Starts() bool { return false }

func (f *fake) Start(int, []*infer.Request, func(bool)) {
	panic("it does not start")
}

func (f *fake) ExecuteOne(instance int, r *infer.Request) bool {
	return f.Execute(instance, []*infer.Request{r})
}

func (f *fake) Execute(instance int, batch []*infer.Request) bool {
	if f.back != nil && f.back(instance, batch) {
		return false
	}
	batch = slices.Clone(batch)
	var ids []string
	for _, r := range batch {
		r.Hold()
		ids = append(ids, r.ID)
	}
	f.mu.Lock()
	if f.busy == nil {
		f.busy = make([]int, f.instances)
	}
	f.busy[instance]++
	f.worst = max(f.worst, f.busy[instance])
	f.batches = append(f.batches, strings.Join(ids, " "))
	f.mu.Unlock()
	if f.took != nil {
		time.Sleep(f.took(instance, batch))
	}
	for _, r := range batch {
		_ = r.Request.Respond(&backend.Response{}, true)
		r.Drop()
	}
	f.mu.Lock()
	f.busy[instance]--
	f.mu.Unlock()
	return true
}

// log collects answers in the order of delivery.
type log struct {
	start time.Time
	mu    sync.Mutex
	lines []string
}

func (l *log) Deliver(r *infer.Request, resp *backend.Response, _ bool) {
	text := "ok"
	if resp != nil && resp.Err != nil {
		_, why := r.Failure()
		text = fmt.Sprintf("%v %q %v", resp.Err.Code, resp.Err.Message, why)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%v %s %s", time.Since(l.start), r.ID, text))
}

func (l *log) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.lines, want) {
		t.Errorf("answers:\n%s\nwant:\n%s", strings.Join(l.lines, "\n"), strings.Join(want, "\n"))
	}
}

// sort forgets the order of answers within a moment, where goroutines that run
// at once have none.
func (l *log) sort() {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.lines)
}

type bench struct {
	*Scheduler
	t     *testing.T
	log   *log
	fake  *fake
	stats *stats.Version
}

func start(t *testing.T, f *fake, size int, c modelconfig.DynamicBatching) *bench {
	v := stats.NewVersion(nil)
	v.FormsBatches()
	return &bench{New(Options{Config: &c, MaxBatchSize: size, Executor: f, Stats: v}), t, &log{start: time.Now()}, f, v}
}

// send enqueues on a goroutine of its own, as front ends do, and returns once
// the request runs or is queued.
func (b *bench) send(id string, change ...func(*infer.Request)) {
	r := infer.New(b.log, nil)
	r.ID, r.Ctx = id, b.t.Context()
	for _, f := range change {
		f(r)
	}
	go func() {
		if err := b.Enqueue(r); err != nil {
			b.log.Deliver(r, &backend.Response{Err: backend.AsError(err)}, true)
			r.Discard()
		}
	}()
	synctest.Wait()
}

func (b *bench) end() {
	b.t.Helper()
	if err := b.Close(b.t.Context()); err != nil {
		b.t.Error(err)
	}
	if n := b.stats.Snapshot().Pending; n != 0 {
		b.t.Errorf("%d requests still count as pending", n)
	}
}

func taking(d time.Duration) func(int, []*infer.Request) time.Duration {
	return func(int, []*infer.Request) time.Duration { return d }
}

func TestQueuedRequestsShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake{instances: 1, took: taking(time.Second)}, 8, modelconfig.DynamicBatching{})
		for _, id := range []string{"a", "b", "c"} {
			b.send(id)
		}
		if n := b.stats.Snapshot().Pending; n != 2 {
			t.Errorf("%d pending, want 2", n)
		}
		time.Sleep(2 * time.Second)
		b.log.expect(t, "1s a ok", "2s b ok", "2s c ok")
		if got := b.stats.Snapshot().BatchesClosed; got[stats.ClosedDrained] != 2 {
			t.Errorf("closed: %v", got)
		}
		b.end()
	})
}

func TestIdleInstanceRunsOnTheCallersGoroutine(t *testing.T) {
	b := start(t, &fake{instances: 1}, 8, modelconfig.DynamicBatching{})
	r := infer.New(b.log, nil)
	if err := b.Enqueue(r); err != nil || !r.Ended() {
		t.Errorf("Enqueue: %v, ended %v", err, r.Ended())
	}
	b.end()
}

func TestBackgroundRequestRunsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake{instances: 2, took: taking(time.Second)}, 1, modelconfig.DynamicBatching{})
		for _, id := range []string{"a", "b"} {
			r := infer.New(b.log, nil)
			r.ID, r.Ctx, r.Background = id, t.Context(), true
			if err := b.Enqueue(r); err != nil || r.Ended() {
				t.Errorf("Enqueue: %v, ended %v", err, r.Ended())
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		b.log.sort()
		b.log.expect(t, "1s a ok", "1s b ok")
		b.end()
	})
}

func TestDelayEndsWithATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake{instances: 1}, 8, modelconfig.DynamicBatching{PreferredBatchSizes: []int{3}, MaxQueueDelay: time.Second})
		b.send("a")
		time.Sleep(300 * time.Millisecond)
		b.send("b")
		time.Sleep(5 * time.Second)
		b.send("c")
		b.send("d")
		b.send("e") // completes the preferred size
		b.log.expect(t, "1s a ok", "1s b ok", "5.3s c ok", "5.3s d ok", "5.3s e ok")
		b.end()
	})
}

func TestTimeoutIsAnsweredWhileTheInstanceIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := modelconfig.DynamicBatching{DefaultPolicy: modelconfig.QueuePolicy{DefaultTimeout: time.Second, AllowTimeoutOverride: true}}
		b := start(t, &fake{instances: 1, took: taking(10 * time.Second)}, 8, c)
		b.send("a")
		b.send("b")
		b.send("c", func(r *infer.Request) { r.Timeout = 200_000 })
		time.Sleep(20 * time.Second)
		b.log.expect(t, `200ms c Unavailable "Request timeout expired" REJECTED`, `1s b Unavailable "Request timeout expired" REJECTED`,
			"10s a ok")
		b.end()
	})
}

func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := modelconfig.DynamicBatching{DefaultPolicy: modelconfig.QueuePolicy{MaxQueueSize: 2}}
		b := start(t, &fake{instances: 1, took: taking(time.Second)}, 8, c)
		for _, id := range []string{"a", "b", "c", "d"} {
			b.send(id)
		}
		b.log.expect(t, `0s d Unavailable "[request id: d] Exceeds maximum queue size" `)
		r := infer.New(b.log, nil)
		if err := backend.AsError(b.Enqueue(r)); err.RetryAfter == 0 || err.Message != "[request id: <id_unknown>] Exceeds maximum queue size" {
			t.Errorf("refusal %+v", err)
		}
		r.Discard()
		time.Sleep(2 * time.Second)
		b.log.expect(t, `0s d Unavailable "[request id: d] Exceeds maximum queue size" `, "1s a ok", "2s b ok", "2s c ok")
		b.end()
	})
}

func TestCancelledRequestsLeaveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := modelconfig.DynamicBatching{DefaultPolicy: modelconfig.QueuePolicy{MaxQueueSize: 1}}
		b := start(t, &fake{instances: 1, took: taking(time.Second)}, 8, c)
		ctx, cancel := context.WithCancel(t.Context())
		with := func(r *infer.Request) { r.Ctx = ctx }
		b.send("a")
		b.send("b", with)
		time.Sleep(100 * time.Millisecond)
		cancel()
		synctest.Wait()
		b.send("c") // there is room again
		b.send("late", with)
		time.Sleep(2 * time.Second)
		b.log.expect(t, `100ms b Cancelled "" CANCELED`, `100ms late Cancelled "" CANCELED`, "1s a ok", "2s c ok")
		b.end()
	})
}

func TestPreserveOrdering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(_ int, batch []*infer.Request) time.Duration {
			if batch[0].ID == "a" {
				return time.Second
			}
			return 100 * time.Millisecond
		}
		c := modelconfig.DynamicBatching{
			PreserveOrdering: true, PriorityLevels: 1,
			DefaultPolicy: modelconfig.QueuePolicy{DefaultTimeout: 500 * time.Millisecond},
		}
		b := start(t, &fake{instances: 2, took: slow}, 1, c)
		ctx, cancel := context.WithCancel(t.Context())
		b.send("a")
		b.send("b")
		b.send("c")
		b.send("gone", func(r *infer.Request) { r.Ctx = ctx })
		cancel()
		time.Sleep(2 * time.Second)
		b.log.expect(t, `1ms gone Cancelled "" CANCELED`, "1s a ok", "1s b ok", "1s c ok")
		b.end()
	})
}

func TestPrefetchKeepsADeepInstanceBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake{instances: 1, depth: 4, took: taking(time.Second)}, 2, modelconfig.DynamicBatching{})
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			b.send(id)
		}
		time.Sleep(5 * time.Second)
		b.log.sort() // two batches run at once
		b.log.expect(t, "1s a ok", "1s b ok", "1s c ok", "2s d ok", "2s e ok")
		if b.fake.worst != 2 {
			t.Errorf("%d batches on one instance, want 2", b.fake.worst)
		}
		b.end()
	})
}

func TestCloseRefusesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake{instances: 1, took: taking(time.Second)}, 1, modelconfig.DynamicBatching{})
		b.send("a")
		b.send("b")
		b.send("c")
		time.Sleep(1500 * time.Millisecond) // b runs on a runner
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := b.Close(short); err == nil {
			t.Error("Close returned before the runner")
		}
		b.end()
		b.send("d")
		const text = `Server is stopping, scheduler for model has stopped accepting new inference requests`
		b.log.expect(t, "1s a ok", `1.5s c Unavailable "[request id: c] `+text+`" OTHER`, "2s b ok",
			`2s d Unavailable "[request id: d] `+text+`" `)
		b.end()
	})
}

// TestHammer sends from many goroutines, with cancellations, short timeouts and
// priorities, and wants exactly one answer each.
func TestHammer(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("ordered=%v", ordered), func(t *testing.T) {
			c := modelconfig.DynamicBatching{
				PreserveOrdering: ordered, MaxQueueDelay: 20 * time.Microsecond, PriorityLevels: 3, PreferredBatchSizes: []int{2, 4},
				DefaultPolicy: modelconfig.QueuePolicy{DefaultTimeout: 300 * time.Microsecond, AllowTimeoutOverride: true},
				Policies: map[uint64]modelconfig.QueuePolicy{2: {
					DefaultTimeout: 100 * time.Microsecond, Action: modelconfig.Delay,
					MaxQueueSize: 5,
				}},
			}
			f := &fake{instances: 2, took: func(int, []*infer.Request) time.Duration { return 10 * time.Microsecond }}
			b := start(t, f, 8, c)
			var answers, refused atomic.Int64
			count := counter{&answers}
			var wg sync.WaitGroup
			const senders, each = 16, 300
			for g := range senders {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(g), 1))
					for range each {
						if !hammer(b.Scheduler, rnd, count) {
							refused.Add(1)
						}
					}
				})
			}
			wg.Wait()
			b.end()
			if got := answers.Load() + refused.Load(); got != senders*each {
				t.Errorf("%d answers and refusals, want %d", got, senders*each)
			}
			if f.worst > 1 {
				t.Errorf("%d batches on one instance", f.worst)
			}
		})
	}
}

// hammer sends a random request, waits for its end, and reports whether it was
// accepted.
func hammer(s *Scheduler, rnd *rand.Rand, sink infer.Sink) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rnd.IntN(4) == 0 {
		time.AfterFunc(time.Duration(rnd.IntN(100))*time.Microsecond, cancel)
	}
	done := make(chan struct{})
	r := infer.New(sink, func(*infer.Request) { close(done) })
	r.Ctx, r.Priority, r.BatchSize = ctx, 1+rnd.Uint64N(3), 1+rnd.IntN(3)
	err := s.Enqueue(r)
	if err != nil {
		r.Discard()
	}
	<-done
	return err == nil
}

type counter struct{ n *atomic.Int64 }

func (c counter) Deliver(_ *infer.Request, _ *backend.Response, final bool) {
	if final {
		c.n.Add(1)
	}
}

// none is an executor that answers at once and allocates nothing.
type none struct {
	fake
	yield bool // let other goroutines run meanwhile
}

var empty backend.Response

func (n *none) Execute(_ int, batch []*infer.Request) bool {
	if n.yield {
		runtime.Gosched()
	}
	for _, r := range batch {
		_ = r.Respond(&empty, true)
	}
	return true
}

func (n *none) ExecuteOne(_ int, r *infer.Request) bool {
	if n.yield {
		runtime.Gosched()
	}
	_ = r.Respond(&empty, true)
	return true
}

func TestAllocationCeiling(t *testing.T) {
	n := &none{fake: fake{instances: 1}}
	s := New(Options{Config: &modelconfig.DynamicBatching{}, MaxBatchSize: 8, Executor: n, Stats: stats.NewVersion(nil)})
	sink := counter{new(atomic.Int64)}
	const want = 1 // the request
	if got := testing.AllocsPerRun(1000, func() { _ = s.Enqueue(infer.New(sink, nil)) }); got > want {
		t.Errorf("%v allocations a request, want %d", got, want)
	}
}

func BenchmarkEnqueueIdle(b *testing.B) {
	n := &none{fake: fake{instances: 1}}
	s := New(Options{Config: &modelconfig.DynamicBatching{}, MaxBatchSize: 8, Executor: n, Stats: stats.NewVersion(nil)})
	sink := counter{new(atomic.Int64)}
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Enqueue(infer.New(sink, nil))
	}
}

func with(ctx context.Context, r *infer.Request) *infer.Request {
	r.Ctx = ctx
	return r
}

// BenchmarkEnqueueQueued has 32 clients with cancellable contexts in front of
// one instance, so that nearly all requests are queued.
func BenchmarkEnqueueQueued(b *testing.B) {
	n := &none{fake: fake{instances: 1}, yield: true}
	s := New(Options{Config: &modelconfig.DynamicBatching{}, MaxBatchSize: 8, Executor: n, Stats: stats.NewVersion(nil)})
	sink := counter{new(atomic.Int64)}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		done := make(chan struct{}, 1)
		end := func(*infer.Request) { done <- struct{}{} }
		for pb.Next() {
			r := with(ctx, infer.New(sink, end))
			if err := s.Enqueue(r); err != nil {
				panic(err)
			}
			<-done
		}
	})
	_ = s.Close(context.Background())
}
