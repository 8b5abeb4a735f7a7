package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// counted is a model that knows its instances.
type counted struct {
	execute func(ctx context.Context, b *backend.Batch) error
	fails   string // the name of an instance that cannot be made

	mu     sync.Mutex
	open   map[string]int
	made   []string
	closed []string
}

type countedInstance struct {
	m    *counted
	name string
	over atomic.Bool
}

func (*counted) Allocator() tensor.Allocator { return nil }
func (*counted) Ready() error                { return nil }
func (*counted) Close() error                { return nil }

func (m *counted) NewInstance(_ context.Context, c backend.InstanceConfig) (backend.Instance, error) {
	if c.Name == m.fails {
		return nil, errors.New("no memory")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[c.Name]++
	m.made = append(m.made, c.Name)
	return &countedInstance{m: m, name: c.Name}, nil
}

func (i *countedInstance) Execute(ctx context.Context, b *backend.Batch) error {
	if i.over.Load() {
		return errors.New("the instance is closed")
	}
	return i.m.execute(ctx, b)
}

func (i *countedInstance) Close() error {
	if i.over.Swap(true) {
		return errors.New("closed twice")
	}
	i.m.mu.Lock()
	defer i.m.mu.Unlock()
	i.m.open[i.name]--
	i.m.closed = append(i.m.closed, i.name)
	return nil
}

func (m *counted) alive() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.open {
		n += c
	}
	return n
}

func answer(_ context.Context, b *backend.Batch) error {
	for _, r := range b.Requests {
		_ = r.Respond(&backend.Response{}, true)
	}
	return nil
}

func configs(names ...string) (all []backend.InstanceConfig) {
	for _, n := range names {
		all = append(all, backend.InstanceConfig{Name: n})
	}
	return all
}

func openCounted(t *testing.T, m *counted, o Options, names ...string) *Pool {
	t.Helper()
	m.open = map[string]int{}
	if m.execute == nil {
		m.execute = answer
	}
	o.Model, o.Stats, o.Instances = m, stats.NewVersion(nil), configs(names...)
	p, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func grow(t *testing.T, p *Pool, names ...string) []int {
	t.Helper()
	numbers := p.Reserve(configs(names...))
	if err := p.Make(t.Context(), numbers); err != nil {
		t.Fatal(err)
	}
	return numbers
}

// A backend that asks for it has its instances made and closed in their order, also
// those that come later.
func TestSerialInstances(t *testing.T) {
	m, names := &counted{}, []string{}
	for n := range 40 {
		names = append(names, fmt.Sprintf("m_%d", n))
	}
	p := openCounted(t, m, Options{Capabilities: backend.Capabilities{Serial: true}}, names[:20]...)
	p.Join(grow(t, p, names[20:]...))
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(m.made, names) || !slices.Equal(m.closed, names) {
		t.Errorf("made as %v, closed as %v", m.made, m.closed)
	}
}

func ended(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// An instance that leaves ends what it holds, and its number is used again.
func TestInstancesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counted{}
		p := openCounted(t, m, Options{}, "a", "b")
		one, _ := p.TryAcquire()
		if _, ok := p.TryAcquire(); one != 0 || !ok {
			t.Fatal("no room")
		}
		came := grow(t, p, "c")
		if _, ok := p.TryAcquire(); ok || came[0] != 2 || m.alive() != 3 {
			t.Errorf("an instance with number %d gives room before it has joined, %d are alive", came[0], m.alive())
		}
		waits := make(chan int)
		go func() {
			i, _ := p.Acquire(t.Context(), nil, 1)
			waits <- i
		}()
		synctest.Wait()
		p.Join(came)
		if i := <-waits; i != 2 {
			t.Errorf("who waited was given room on %d", i)
		}
		p.Leave([]int{0})
		gone := false
		closed := p.Depart(0, 0, func() { gone = true })
		p.Left(0)
		if ended(closed) || p.Count() != 3 {
			t.Error("an instance ends while somebody has room on it")
		}
		p.Release(0)
		if !ended(closed) || !gone || m.open["a"] != 0 || p.Count() != 2 || p.Health().Instances != 2 {
			t.Errorf("after its last room: gone %v, %d there", gone, p.Count())
		}
		if _, ok := p.TryAcquire(); ok {
			t.Error("an instance that has left gives room")
		}
		p.Watch(backend.Now())
		if again := grow(t, p, "d", "e"); again[0] != 0 || again[1] != 3 || p.Number("d") != 0 || p.Number("a") != -1 {
			t.Errorf("new instances have the numbers %v", again)
		}
		p.Release(1)
		p.Release(2)
		if err := p.Close(); err != nil || m.alive() != 0 {
			t.Errorf("%v, %d instances are alive", err, m.alive())
		}
	})
}

// It also waits for what the scheduler has, and for requests of a decoupled model
// that are not answered yet.
func TestAnInstanceThatLeavesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var open []*backend.Request
		m := &counted{execute: func(_ context.Context, b *backend.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			open = append(open, b.Requests...)
			return nil
		}}
		p := openCounted(t, m, Options{Decoupled: true}, "a", "b")
		sink := &sinkFunc{}
		p.ExecuteOne(0, infer.New(sink, nil))
		p.Leave([]int{0})
		closed := p.Depart(0, 0, func() {})
		if ended(closed) {
			t.Error("an instance ends although the scheduler has something for it")
		}
		p.Left(0)
		if ended(closed) {
			t.Error("an instance ends before it has answered")
		}
		_ = open[0].Respond(&backend.Response{}, false)
		if ended(closed) {
			t.Error("an instance ends before its final answer")
		}
		_ = open[0].Respond(nil, true)
		if !ended(closed) {
			t.Error("an instance does not end")
		}
		if err := p.Close(); err != nil || m.alive() != 0 {
			t.Errorf("%v, %d instances are alive", err, m.alive())
		}
	})
}

type sinkFunc struct{}

func (*sinkFunc) Deliver(_ *infer.Request, resp *backend.Response, _ bool) { resp.Release() }

// What cannot be made leaves nothing behind.
func TestInstancesThatCannotBeMade(t *testing.T) {
	m := &counted{fails: "c"}
	p := openCounted(t, m, Options{}, "a")
	numbers := p.Reserve(configs("b", "c", "d"))
	if err := p.Make(t.Context(), numbers); err == nil || err.Error() != "no memory" {
		t.Error(err)
	}
	if m.alive() != 1 || len(p.slots()) != 4 || p.Count() != 1 {
		t.Errorf("%d instances are alive, %d counted", m.alive(), p.Count())
	}
	if i, ok := p.TryAcquire(); i != 0 || !ok {
		t.Error("the instance that was there has no room")
	}
	p.Release(0)
	if again := grow(t, p, "x"); again[0] != 1 {
		t.Errorf("the number %d was given", again[0])
	}
	if err := p.Close(); err != nil || m.alive() != 0 {
		t.Errorf("%v, %d instances are alive", err, m.alive())
	}
}

// An execution that goes on is interrupted after a while, and Close does not wait
// for an instance that leaves.
func TestPatienceEnds(t *testing.T) {
	for name, patience := range map[string]time.Duration{"patience": time.Minute, "close": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &counted{execute: func(ctx context.Context, _ *backend.Batch) error {
					<-ctx.Done()
					return ctx.Err()
				}}
				p := openCounted(t, m, Options{}, "a", "b")
				i, _ := p.TryAcquire()
				go func() {
					p.ExecuteOne(i, infer.New(&sinkFunc{}, nil))
					p.Release(i)
				}()
				synctest.Wait()
				p.Leave([]int{i})
				begun := time.Now()
				closed := p.Depart(i, patience, func() {})
				p.Left(i)
				if patience == 0 {
					p.Interrupt()
				}
				<-closed
				if took := time.Since(begun); took != patience {
					t.Errorf("after %v", took)
				}
				synctest.Wait()
				if err := p.Close(); err != nil || m.alive() != 0 {
					t.Errorf("%v, %d instances are alive", err, m.alive())
				}
			})
		})
	}
}

// No instance is closed under an execution, whoever takes room while instances
// come and go.
func TestChangesHammer(t *testing.T) {
	m := &counted{}
	p := openCounted(t, m, Options{}, "a", "b")
	ctx, stop := context.WithCancel(t.Context())
	var takers sync.WaitGroup
	var ran atomic.Int64
	for range 8 {
		takers.Go(func() {
			for ctx.Err() == nil {
				i, ok := p.TryAcquire()
				if !ok {
					var err error
					if i, err = p.Acquire(ctx, nil, backend.Now()); err != nil {
						return
					}
				}
				r := infer.New(failing{t}, nil)
				p.ExecuteOne(i, r)
				p.Release(i)
				ran.Add(1)
			}
		})
	}
	there := []int{0, 1}
	for n := 0; n < 300 || ran.Load() == 0; n++ {
		came := grow(t, p, "x")
		p.Join(came)
		p.Leave(there[:1])
		p.Left(there[0])
		closed := p.Depart(there[0], 0, func() {})
		there = append(there[1:], came...)
		<-closed
	}
	stop()
	takers.Wait()
	if n := len(p.slots()); n > 3 {
		t.Errorf("%d numbers for two instances", n)
	}
	if err := p.Close(); err != nil || m.alive() != 0 || ran.Load() == 0 {
		t.Errorf("%v, %d instances are alive, %d requests ran", err, m.alive(), ran.Load())
	}
}

// failing is a sink that wants no errors.
type failing struct{ t *testing.T }

func (f failing) Deliver(_ *infer.Request, resp *backend.Response, _ bool) {
	if resp != nil && resp.Err != nil {
		f.t.Error(resp.Err)
	}
	resp.Release()
}
