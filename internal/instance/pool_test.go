package instance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// fake is a model whose instances call a function.
type fake struct {
	execute func(b *backend.Batch) error
}

func (fake) Allocator() tensor.Allocator { return nil }
func (fake) Ready() error                { return nil }
func (fake) Close() error                { return nil }
func (f fake) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	return instanceOf(f), nil
}

type instanceOf fake

func (i instanceOf) Execute(_ context.Context, b *backend.Batch) error { return i.execute(b) }
func (i instanceOf) Close() error                                      { return nil }

func newPool(t *testing.T, o Options, instances int, execute func(*backend.Batch) error) *Pool {
	t.Helper()
	for i := range instances {
		o.Instances = append(o.Instances, backend.InstanceConfig{Name: fmt.Sprintf("m_0_%d", i)})
	}
	o.Model, o.Stats = fake{execute}, stats.NewVersion(nil)
	return open(t, o)
}

// open opens a pool that ends with the test.
func open(t *testing.T, o Options) *Pool {
	t.Helper()
	p, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// saying is a model whose instances say how they are.
type saying struct {
	fake
	mu     sync.Mutex
	report []func(backend.InstanceState)
}

func (s *saying) NewInstance(_ context.Context, c backend.InstanceConfig) (backend.Instance, error) {
	c.Report(backend.InstanceState{Down: c.Passive})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = append(s.report, c.Report)
	return instanceOf(s.fake), nil
}

// Passive instances are made, watched and closed like all others, whatever they
// say of themselves, and have no room to give.
func TestPassiveInstancesStandAside(t *testing.T) {
	m := &saying{}
	o := Options{
		Model: m, Stats: stats.NewVersion(nil),
		Instances: []backend.InstanceConfig{{Name: "active"}, {Name: "passive", Passive: true}},
	}
	p := open(t, o)
	ups := 0
	p.OnUp(func() { ups++ })
	for _, r := range m.report {
		r(backend.InstanceState{Ahead: 4})
	}
	if p.Instances() != 1 || p.Health().Instances != 2 || len(m.report) != 2 || ups != 1 {
		t.Errorf("%d of %d instances take requests, %d were made, %d are up again", p.Instances(), p.Health().Instances, len(m.report), ups)
	}
	p.Watch(backend.Now())
	if i, ok := p.TryAcquire(); i != 0 || !ok {
		t.Errorf("the first room is on %d, %v", i, ok)
	}
	if i, ok := p.TryAcquire(); ok {
		t.Errorf("a second room is on %d", i)
	}
	p.Release(0)
	o.Instances = o.Instances[1:]
	if _, err := Open(t.Context(), o); err == nil {
		t.Error("a model whose instances are all passive has opened")
	}
}

// waits is a model that executes until it is interrupted.
type waits struct{ fake }

type waiting struct{ instanceOf }

func (waits) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	return waiting{}, nil
}

func (waiting) Execute(ctx context.Context, _ *backend.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

// A warm-up that does not come back ends with the load, and with the failure of
// another instance.
func TestWarmupEndsWithTheLoad(t *testing.T) {
	errWarm := errors.New("another instance failed")
	for name, c := range map[string]struct {
		fails string
		want  error
	}{"load given up": {"", context.Canceled}, "another instance": {"m_0_1", errWarm}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var warmed atomic.Int32
				o := Options{Model: waits{}, Stats: stats.NewVersion(nil), Instances: []backend.InstanceConfig{{Name: "m_0_0"}, {Name: "m_0_1"}}}
				o.Warm = func(ctx context.Context, run Run) error {
					if warmed.Add(1) == 2 && c.fails != "" {
						return errWarm
					}
					r := request(&drop{}, 1)
					r.Ctx = ctx
					run([]*infer.Request{r}, false)
					return context.Cause(ctx)
				}
				opened := make(chan error, 1)
				go func() {
					_, err := Open(ctx, o)
					opened <- err
				}()
				synctest.Wait()
				if c.fails == "" {
					cancel()
				}
				if err := <-opened; !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestPlacesGoToTheLeastLoaded(t *testing.T) {
	p := newPool(t, Options{Capabilities: backend.Capabilities{Depth: 2}}, 3, nil)
	var got []int
	for range 6 {
		i, ok := p.TryAcquire()
		if !ok {
			t.Fatal("no room")
		}
		got = append(got, i)
	}
	if want := []int{0, 1, 2, 0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("room on %v, want %v", got, want)
	}
	if _, ok := p.TryAcquire(); ok {
		t.Error("room for a seventh")
	}
	p.Release(1)
	if i, ok := p.TryAcquire(); !ok || i != 1 {
		t.Errorf("room on %d, %v; want 1", i, ok)
	}
}

func TestWaitersStandInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Options{}, 1, nil)
		p.TryAcquire()
		var mu sync.Mutex
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		for _, name := range []string{"a", "b", "c"} {
			go func() {
				c := t.Context()
				if name == "b" {
					c = ctx
				}
				i, err := p.Acquire(c, nil, 0)
				mu.Lock()
				got = append(got, fmt.Sprint(name, " ", err))
				mu.Unlock()
				if err == nil {
					time.Sleep(time.Second)
					p.Release(i)
				}
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		p.Release(0)
		if _, ok := p.TryAcquire(); ok {
			t.Error("a newcomer passed the line")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"b context canceled", "a <nil>", "c <nil>"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := p.waiting.Load(); n != 0 {
			t.Errorf("%d still count as waiting", n)
		}
	})
}

func TestWaitEndsWithStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Options{}, 1, nil)
		p.TryAcquire()
		stop, got := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := p.Acquire(t.Context(), stop, 0)
			got <- err
		}()
		synctest.Wait()
		close(stop)
		if err := <-got; !errors.Is(err, ErrStopped) {
			t.Errorf("got %v, want %v", err, ErrStopped)
		}
		if n := p.waiting.Load(); n != 0 {
			t.Errorf("%d still count as waiting", n)
		}
		p.Release(0)
		if i, ok := p.TryAcquire(); !ok || i != 0 {
			t.Errorf("room on %d, %v; want that which nobody waits for", i, ok)
		}
	})
}

// TestCapacityHammer has many more takers than room, some of which give up.
func TestCapacityHammer(t *testing.T) {
	p := newPool(t, Options{Capabilities: backend.Capabilities{Depth: 2}}, 2, nil)
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 3))
			for range 500 {
				i, ok := p.TryAcquire()
				if !ok {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(200))*time.Microsecond)
					var err error
					i, err = p.Acquire(ctx, nil, 0)
					cancel()
					if err != nil {
						continue
					}
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				inside.Add(-1)
				p.Release(i)
			}
		})
	}
	wg.Wait()
	if most.Load() > 4 {
		t.Errorf("room was taken %d times at once, there are 4", most.Load())
	}
	for i, s := range p.slots() {
		if n := s.load.Load(); n != 0 {
			t.Errorf("instance %d ends with load %d", i, n)
		}
	}
	if n := p.waiting.Load(); n != 0 || len(p.line) != 0 {
		t.Errorf("%d count as waiting, %d stand in line", n, len(p.line))
	}
}

// drop is a sink for answers nobody reads.
type drop struct{ errs []*backend.Error }

func (d *drop) Deliver(_ *infer.Request, resp *backend.Response, _ bool) {
	if resp != nil && resp.Err != nil {
		d.errs = append(d.errs, resp.Err)
	}
	resp.Release()
}

func request(sink infer.Sink, batch int, inputs ...tensor.Tensor) *infer.Request {
	r := infer.New(sink, nil)
	r.BatchSize, r.Inputs = batch, inputs
	return r
}

func numbers(name string, shape tensor.Shape, from uint32) tensor.Tensor {
	n, _ := shape.Elements()
	var data []byte
	for i := range uint32(n) {
		data = binary.LittleEndian.AppendUint32(data, from+i)
	}
	return tensor.Tensor{Name: name, Datatype: tensor.Uint32, Shape: shape, Data: data}
}

func read(t tensor.Tensor) string {
	var got []uint32
	for i := 0; i+4 <= len(t.Data); i += 4 {
		got = append(got, binary.LittleEndian.Uint32(t.Data[i:]))
	}
	return fmt.Sprint(t.Name, " ", t.Shape, " ", got)
}

// made is a tensor that describes the input A.
func made(kind string, targets ...string) modelconfig.BatchInput {
	return modelconfig.BatchInput{Kind: kind, Targets: targets, Datatype: tensor.Int32, SourceInput: []string{"A"}}
}

func TestGather(t *testing.T) {
	pool := memory.New(memory.Options{})
	defer pool.Close()
	for _, test := range []struct {
		name   string
		ragged map[string]bool
		made   []modelconfig.BatchInput
		batch  []*infer.Request
		want   []string
	}{
		{
			"one request is not copied", nil, nil,
			[]*infer.Request{request(&drop{}, 2, numbers("A", tensor.Shape{2, 1}, 1))},
			[]string{"A [2,1] [1 2]"},
		},
		{
			"rows in request order, inputs by name", nil, nil,
			[]*infer.Request{
				request(&drop{}, 1, numbers("A", tensor.Shape{1, 2}, 1), numbers("B", tensor.Shape{1}, 9)),
				request(&drop{}, 2, numbers("B", tensor.Shape{2}, 20), numbers("A", tensor.Shape{2, 2}, 5)),
			},
			[]string{"A [3,2] [1 2 5 6 7 8]", "B [3] [9 20 21]"},
		},
		{
			"ragged",
			map[string]bool{"A": true},
			nil,
			[]*infer.Request{request(&drop{}, 1, numbers("A", tensor.Shape{1, 3}, 1)), request(&drop{}, 1, numbers("A", tensor.Shape{1, 1}, 7))},
			[]string{"A [4] [1 2 3 7]"},
		},
		{
			"ragged, one request",
			map[string]bool{"A": true},
			nil,
			[]*infer.Request{request(&drop{}, 1, numbers("A", tensor.Shape{1, 3}, 1))},
			[]string{"A [3] [1 2 3]"},
		},
		{
			"counts of elements",
			map[string]bool{"A": true},
			[]modelconfig.BatchInput{
				made(elementCount, "N"), made(accumulated, "SUM"),
				made(accumulatedWithZero, "FROM"), made(maxAsShape, "MAX"),
			},
			[]*infer.Request{
				request(&drop{}, 1, numbers("A", tensor.Shape{1, 3}, 1)), request(&drop{}, 1, numbers("A", tensor.Shape{1, 0}, 7)),
				request(&drop{}, 2, numbers("A", tensor.Shape{2, 2}, 5)),
			},
			[]string{"A [7] [1 2 3 5 6 7 8]", "N [3] [3 0 4]", "SUM [3] [3 3 7]", "FROM [4] [0 3 3 7]", "MAX [4] [0 0 0 0]"},
		},
		{
			"shapes of items, for more than one tensor",
			map[string]bool{"A": true},
			[]modelconfig.BatchInput{made(itemShape, "ROWS", "AGAIN"), made(itemShapeFlatten, "FLAT")},
			[]*infer.Request{
				request(&drop{}, 1, numbers("A", tensor.Shape{1, 3, 1}, 1)),
				request(&drop{}, 2, numbers("A", tensor.Shape{2, 0, 4}, 1)),
			},
			[]string{"A [3] [1 2 3]", "ROWS [3,2] [3 1 0 4 0 4]", "AGAIN [3,2] [3 1 0 4 0 4]", "FLAT [6] [3 1 0 4 0 4]"},
		},
		{
			"described, one request, not ragged", nil,
			[]modelconfig.BatchInput{made(accumulatedWithZero, "FROM")},
			[]*infer.Request{request(&drop{}, 2, numbers("A", tensor.Shape{2, 2}, 1))},
			[]string{"A [2,2] [1 2 3 4]", "FROM [2] [0 4]"},
		},
		{
			"nothing describes an optional input that is not there", nil,
			[]modelconfig.BatchInput{made(elementCount, "N")},
			[]*infer.Request{request(&drop{}, 1, numbers("B", tensor.Shape{1}, 1)), request(&drop{}, 1, numbers("B", tensor.Shape{1}, 2))},
			[]string{"B [2] [1 2]"},
		},
		{
			"more than 32 bits hold", nil,
			[]modelconfig.BatchInput{made(itemShape, "ROWS")},
			[]*infer.Request{request(&drop{}, 1, numbers("A", tensor.Shape{1, 1 << 40, 0}, 1))},
			nil,
		},
		{
			"other inputs", nil, nil,
			[]*infer.Request{request(&drop{}, 1, numbers("A", tensor.Shape{1}, 1)), request(&drop{}, 1, numbers("B", tensor.Shape{1}, 1))},
			nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			o := Options{
				Capabilities: backend.Capabilities{Gather: true}, Batching: true, Ragged: test.ragged, BatchInputs: test.made,
				Allocator: pool,
			}
			p := newPool(t, o, 1, func(b *backend.Batch) error {
				for _, in := range b.Inputs {
					got = append(got, read(in))
				}
				for _, r := range b.Requests {
					_ = r.Respond(&backend.Response{}, true)
				}
				return nil
			})
			p.Execute(0, test.batch)
			if !slices.Equal(got, test.want) {
				t.Errorf("inputs %q, want %q", got, test.want)
			}
			for _, r := range test.batch {
				if err, _ := r.Failure(); !r.Ended() || (err != nil) != (test.want == nil) {
					t.Errorf("ended %v, failure %v", r.Ended(), err)
				}
			}
		})
	}
	if leaks := pool.Leaks(); len(leaks) > 0 {
		t.Errorf("leaks: %v", leaks)
	}
}

// TestGatherRefusesRowsOfOtherShapes: each row behind a longer one would begin in it,
// so that a request got what is another's.
func TestGatherRefusesRowsOfOtherShapes(t *testing.T) {
	pool := memory.New(memory.Options{})
	defer pool.Close()
	for name, shapes := range map[string][2]tensor.Shape{
		"other dimensions":  {{1, 2}, {1, 3}},
		"the same elements": {{1, 2, 3}, {1, 3, 2}},
		"another rank":      {{2}, {1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Capabilities: backend.Capabilities{Gather: true}, Batching: true, Allocator: pool}
			p := newPool(t, o, 1, func(b *backend.Batch) error {
				t.Errorf("executes %s", read(b.Inputs[0]))
				return nil
			})
			batch := []*infer.Request{request(&drop{}, 1, numbers("A", shapes[0], 1)), request(&drop{}, 1, numbers("A", shapes[1], 7))}
			p.Execute(0, batch)
			want := fmt.Sprintf("batch with input 'A' of shapes %v and %v, which cannot share one", shapes[0], shapes[1])
			for _, r := range batch {
				if err, _ := r.Failure(); err == nil || err.Code != backend.Internal || err.Message != want {
					t.Errorf("ended %v, failure %v, want %s", r.Ended(), err, want)
				}
			}
		})
	}
	if leaks := pool.Leaks(); len(leaks) > 0 {
		t.Errorf("leaks: %v", leaks)
	}
}

// TestGatherRefusesOtherInputs: what only some requests of a batch have is neither
// left out nor made up.
func TestGatherRefusesOtherInputs(t *testing.T) {
	pool := memory.New(memory.Options{})
	defer pool.Close()
	one := func(names string) *infer.Request {
		var inputs []tensor.Tensor
		for name := range strings.FieldsSeq(names) {
			inputs = append(inputs, numbers(name, tensor.Shape{1}, 1))
		}
		return request(&drop{}, 1, inputs...)
	}
	for _, test := range []struct{ first, second, third, odd string }{
		{"A", "A B", "A B", "B"},
		{"A B", "A B", "A", "B"},
		{"A", "A", "B A", "B"},
		{"A B", "B A", "B C A", "C"},
		{"", "A", "A", "A"},
	} {
		t.Run(test.first+","+test.second+","+test.third, func(t *testing.T) {
			o := Options{Capabilities: backend.Capabilities{Gather: true}, Batching: true, Allocator: pool}
			p := newPool(t, o, 1, func(b *backend.Batch) error {
				t.Errorf("executes with %d inputs", len(b.Inputs))
				return nil
			})
			batch := []*infer.Request{one(test.first), one(test.second), one(test.third)}
			p.Execute(0, batch)
			for _, r := range batch {
				err, _ := r.Failure()
				if want := "batch with and without input '" + test.odd + "'"; err == nil || err.Code != backend.Internal || err.Message != want {
					t.Errorf("ended %v, failure %v, want %s", r.Ended(), err, want)
				}
			}
		})
	}
	if leaks := pool.Leaks(); len(leaks) > 0 {
		t.Errorf("leaks: %v", leaks)
	}
}

// A batch that was sent ahead and ends without a word of its beginning waits no
// more: pending requests are what autoscalers see.
func TestWhatHasEndedDoesNotWait(t *testing.T) {
	for name, fails := range map[string]error{"answered": nil, "failed": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, Options{}, 1, func(b *backend.Batch) error {
				b.Progress.Waits()
				if fails == nil {
					_ = b.Requests[0].Respond(&backend.Response{}, true)
				}
				return fails
			})
			if !p.Execute(0, []*infer.Request{request(&drop{}, 1)}) {
				t.Fatal("it comes back")
			}
			if n := p.o.Stats.Snapshot().Pending; n != 0 {
				t.Errorf("%d requests wait", n)
			}
		})
	}
}

// TestGatheredInputsOutliveExecute checks that a decoupled backend may read its
// batch until the last final response.
func TestGatheredInputsOutliveExecute(t *testing.T) {
	pool := memory.New(memory.Options{})
	defer pool.Close()
	var batch *backend.Batch
	o := Options{Capabilities: backend.Capabilities{Gather: true}, Batching: true, Decoupled: true, Allocator: pool}
	p := newPool(t, o, 1, func(b *backend.Batch) error { batch = b; return nil })
	large := tensor.Shape{1, 64 << 10} // large enough to be counted
	a, b := request(&drop{}, 1, numbers("A", large, 1)), request(&drop{}, 1, numbers("A", large, 2))
	p.Execute(0, []*infer.Request{a, b})
	_ = batch.Requests[0].Respond(nil, true)
	if pool.Usage().InUse == 0 || binary.LittleEndian.Uint32(batch.Inputs[0].Data) != 1 {
		t.Error("the inputs are gone before the last answer")
	}
	_ = batch.Requests[1].Respond(nil, true)
	if u := pool.Usage(); u.InUse != 0 {
		t.Errorf("%d bytes still in use", u.InUse)
	}
}

func TestBatchPhases(t *testing.T) {
	p := newPool(t, Options{}, 1, func(b *backend.Batch) error {
		b.InputEnd = backend.Now()
		time.Sleep(time.Millisecond)
		b.OutputStart = backend.Now()
		for _, r := range b.Requests {
			_ = r.Respond(&backend.Response{}, true)
		}
		return nil
	})
	for range 3 { // reused memory starts anew
		p.Execute(0, []*infer.Request{request(&drop{}, 3), request(&drop{}, 0)})
	}
	s := p.o.Stats.Snapshot()
	if len(s.Batches) != 1 || s.Batches[0].Size != 4 || s.Batches[0].ComputeInfer.Count != 3 || s.Batches[0].ComputeInfer.Nanos < 3_000_000 {
		t.Errorf("batches %+v", s.Batches)
	}
}

// TestMixedAnswers has a backend that answers some requests and then fails, or
// panics: those answered stay so, the others get the error, once.
func TestMixedAnswers(t *testing.T) {
	for _, how := range []string{"error", "panic", "forgets"} {
		sink := &drop{}
		p := newPool(t, Options{}, 1, func(b *backend.Batch) error {
			_ = b.Requests[0].Respond(&backend.Response{}, true)
			switch how {
			case "error":
				return backend.Errorf(backend.Unavailable, "broken")
			case "panic":
				panic("broken")
			}
			return nil
		})
		batch := []*infer.Request{request(sink, 1), request(sink, 1), request(sink, 1)}
		p.Execute(0, batch)
		for i, r := range batch {
			err, why := r.Failure()
			if !r.Ended() || (err == nil) != (i == 0) || i > 0 && why != infer.Backend {
				t.Errorf("%s: request %d: ended %v, failure %v, %v", how, i, r.Ended(), err, why)
			}
		}
		if len(sink.errs) != 2 {
			t.Errorf("%s: %d errors were delivered, want 2", how, len(sink.errs))
		}
	}
}

func cancellable(t *testing.T) (*infer.Request, context.CancelFunc) {
	r := request(&drop{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	r.Ctx = ctx
	return r, cancel
}

// Where nothing can be begun, a batch that has to stay waits as long as anybody
// waits for it: the last one who leaves ends it.
func TestInsistEndsWithTheLastClient(t *testing.T) {
	begun := make(chan struct{}, 1)
	m := &saying{fake: fake{func(*backend.Batch) error {
		begun <- struct{}{}
		return backend.ErrNotBegun
	}}}
	o := Options{Model: m, Stats: stats.NewVersion(nil), Instances: []backend.InstanceConfig{{Name: "only"}}}
	p := open(t, o)
	m.report[0](backend.InstanceState{Down: true})
	var requests []*infer.Request
	var cancels []context.CancelFunc
	for range 3 {
		r, cancel := cancellable(t)
		requests, cancels = append(requests, r), append(cancels, cancel)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Insist(0, requests)
	}()
	<-begun
	for _, cancel := range cancels {
		cancel()
	}
	<-done
	for i, r := range requests {
		if !r.Ended() {
			t.Errorf("request %d has no answer", i)
		}
	}
}
