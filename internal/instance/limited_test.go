package instance

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/ratelimit"
)

func needing(units int) ratelimit.Instance {
	return ratelimit.Instance{Priority: 1, Needs: []ratelimit.Need{{Name: "R", Count: units}}}
}

func registered(t *testing.T, l *ratelimit.Limiter, all ...ratelimit.Instance) *ratelimit.Group {
	t.Helper()
	g, err := l.Register(all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// come makes an instance that needs a unit of R take requests beside the others.
func come(t *testing.T, p *Pool, name string) int {
	t.Helper()
	i := p.Reserve(configs(name))[0]
	if err := p.limits.Add(map[int]ratelimit.Instance{i: needing(1)}); err != nil {
		t.Fatal(err)
	}
	if err := p.Make(t.Context(), []int{i}); err != nil {
		t.Fatal(err)
	}
	p.Join([]int{i})
	return i
}

func leave(p *Pool, i int) <-chan struct{} {
	p.Leave([]int{i})
	p.Left(i)
	return p.Depart(i, 0, func() { p.limits.Remove(i) })
}

// Places on instances that need something are given when it is their turn; those in
// line may leave it, and those of another model have their turn then.
func TestLimitedPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.New(nil)
		p := openCounted(t, &counted{}, Options{Limits: registered(t, l, needing(1), needing(1))}, "a", "b")
		rival := openCounted(t, &counted{}, Options{Limits: registered(t, l, needing(1))}, "c")
		if _, ok := p.TryAcquire(); ok {
			t.Error("room is given without asking")
		}
		i, err := p.Acquire(t.Context(), nil, 1)
		if err != nil || i != 0 {
			t.Fatal(i, err)
		}
		got := make(chan string, 3)
		wait := func(p *Pool, name string, since int64) (leave func()) {
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				i, err := p.Acquire(ctx, nil, since)
				if err != nil {
					got <- name + " left"
					return
				}
				got <- name
				p.Release(i)
			}()
			synctest.Wait()
			return leave
		}
		wait(rival, "first", 2)
		gone := wait(p, "gone", 3)
		wait(p, "second", 4)
		gone()
		if s := <-got; s != "gone left" {
			t.Error(s)
		}
		p.Release(i)
		if a, b := <-got, <-got; a != "first" || b != "second" {
			t.Errorf("%s before %s", a, b)
		}
		synctest.Wait()
		if u := l.Usage()[0]; u.Used != 0 {
			t.Errorf("%d units are held by nobody", u.Used)
		}
		for _, p := range []*Pool{p, rival} {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// The first instance that needs something comes to those that run, and goes again:
// what was sent ahead of it runs on, and then all ask.
func TestTheFirstLimitedInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.New(nil)
		rival := registered(t, l, needing(1))
		p := openCounted(t, &counted{}, Options{Limits: registered(t, l, ratelimit.Instance{})}, "a")
		free, ok := p.TryAcquire()
		if !ok || free != 0 {
			t.Fatal("an instance that needs nothing is not given")
		}
		limited := come(t, p, "b")
		if !rival.Ask(0) {
			t.Fatal("the resource is held")
		}
		got := make(chan int)
		acquire := func() {
			go func() {
				i, _ := p.Acquire(t.Context(), nil, 1)
				got <- i
			}()
			synctest.Wait()
		}
		acquire()
		select {
		case i := <-got:
			t.Fatalf("room on %d, which is busy or lacks the resource", i)
		default:
		}
		var others ratelimit.Turns
		rival.Release(0, &others)
		others.Tell()
		if i := <-got; i != limited {
			t.Errorf("room on %d", i)
		}
		acquire()
		p.Release(free)
		if i := <-got; i != free {
			t.Errorf("room on %d", i)
		}
		closed := leave(p, limited)
		p.Release(limited)
		if !ended(closed) || len(l.Usage()) != 1 {
			t.Errorf("%v", l.Usage())
		}
		p.Release(free)
		if _, ok := p.TryAcquire(); !ok {
			t.Error("an instance that needs nothing is not given, when no other needs anything any more")
		}
		p.Release(free)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// However instances come and go, none runs two batches at once, and together they
// do not use more than there is.
func TestLimitsHammer(t *testing.T) {
	l := ratelimit.New(nil)
	var inside, ran atomic.Int64
	busy := sync.Map{} // *atomic.Int64 by slot
	execute := func(ctx context.Context, b *backend.Batch) error {
		s := b.Progress.(*execution).slot
		n, _ := busy.LoadOrStore(s, &atomic.Int64{})
		defer n.(*atomic.Int64).Add(-1)
		if n.(*atomic.Int64).Add(1) > 1 {
			t.Error("an instance runs two batches at once")
		}
		if s.needy {
			defer inside.Add(-1)
			if inside.Add(1) > 1 {
				t.Error("two run where there is enough for one")
			}
		}
		runtime.Gosched()
		return answer(ctx, b)
	}
	models := []*counted{{execute: execute}, {execute: execute}}
	pools := []*Pool{
		openCounted(t, models[0], Options{Limits: registered(t, l, ratelimit.Instance{})}, "a"),
		openCounted(t, models[1], Options{Limits: registered(t, l, needing(1))}, "b"),
	}
	ctx, stop := context.WithCancel(t.Context())
	var takers sync.WaitGroup
	for k := range 8 {
		p, random := pools[k/6], rand.New(rand.NewPCG(uint64(k), 1))
		takers.Go(func() {
			for ctx.Err() == nil {
				i, ok := p.TryAcquire()
				if !ok {
					patient, give := context.WithTimeout(ctx, time.Duration(random.IntN(400))*time.Microsecond)
					var err error
					i, err = p.Acquire(patient, nil, backend.Now())
					give()
					if err != nil {
						continue
					}
				}
				p.ExecuteOne(i, infer.New(failing{t}, nil))
				p.Release(i)
				ran.Add(1)
			}
		})
	}
	for range 300 {
		i := come(t, pools[0], "x")
		for n := ran.Load(); ran.Load() < n+5; {
			runtime.Gosched()
		}
		<-leave(pools[0], i)
	}
	stop()
	takers.Wait()
	if u := l.Usage(); len(u) != 1 || u[0].Used != 0 || pools[0].limits.Limited() {
		t.Errorf("left: %v", u)
	}
	for i, p := range pools {
		if err := p.Close(); err != nil || models[i].alive() != 0 {
			t.Errorf("%v, %d instances are alive", err, models[i].alive())
		}
	}
}
