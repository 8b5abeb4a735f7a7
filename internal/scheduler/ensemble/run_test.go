package ensemble

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// fakeHost runs Go functions as models.
type fakeHost struct {
	t      *testing.T
	models map[string]*modelconfig.Config
	run    map[string]func(r *infer.Request) error

	onDevice map[string]bool // models that take inputs on GPUs

	work sync.WaitGroup // answers that are given on other goroutines
	mu   sync.Mutex
	open int // pins and requests that have not ended
	log  []string
}

func (h *fakeHost) Pin(model string, _ int64) (Target, error) {
	if h.run[model] == nil {
		return nil, backend.Errorf(backend.NotFound, "Request for unknown model: '%s' is not found", model)
	}
	h.add(1)
	return &fakeTarget{h, h.models[model]}, nil
}

func (h *fakeHost) Holding(string, Target, backend.CorrelationID) Target { return nil }

func (h *fakeHost) add(n int) {
	h.mu.Lock()
	h.open += n
	h.mu.Unlock()
}

type fakeTarget struct {
	h *fakeHost
	c *modelconfig.Config
}

func (f *fakeTarget) Config() *modelconfig.Config { return f.c }

func (f *fakeTarget) TakesDevice() bool { return f.h.onDevice[f.c.Name] }

func (f *fakeTarget) Unpin() { f.h.add(-1) }

func (f *fakeTarget) NewRequest(sink infer.Sink) *infer.Request {
	f.h.add(1)
	r := infer.New(sink, func(*infer.Request) { f.h.add(-1) })
	r.ModelName = f.c.Name
	return r
}

func (h *fakeHost) Infer(r *infer.Request) error {
	h.mu.Lock()
	h.log = append(h.log, r.ModelName)
	h.mu.Unlock()
	if err := h.run[r.ModelName](r); err != nil {
		r.Discard()
		return err
	}
	return nil
}

func (*fakeHost) Ready(string, int64) error                { return nil }
func (*fakeHost) Allocator(string, int64) tensor.Allocator { return nil }
func (*fakeHost) Labels(string, int64, string) []string    { return nil }
func (h *fakeHost) model(line string, run func(*infer.Request) error) {
	c := parseModel(strings.Fields(line))
	c.Groups = []modelconfig.InstanceGroup{{Count: 1}}
	h.models[c.Name], h.run[c.Name] = c, run
}

func newHost(t *testing.T) *fakeHost {
	return &fakeHost{t: t, models: map[string]*modelconfig.Config{}, run: map[string]func(*infer.Request) error{}}
}

// scheduler makes the scheduler of an ensemble of steps "model IN=X -> OUT=Y".
func (h *fakeHost) scheduler(inflight int, line string, steps ...string) *Scheduler {
	h.t.Helper()
	c := parseModel(strings.Fields(line))
	c.Ensemble = &modelconfig.Ensemble{MaxInflight: inflight}
	for _, s := range steps {
		w := strings.Fields(s)
		c.Ensemble.Steps = append(c.Ensemble.Steps, modelconfig.Step{Model: w[0], Version: -1, InputMap: pairs(w[1]), OutputMap: pairs(w[3])})
	}
	g, err := NewGraph(c, func(model string, _ int64) *modelconfig.Config { return h.models[model] })
	if err != nil {
		h.t.Fatal(err)
	}
	return New(Options{Graph: g, Host: h, Stats: stats.NewVersion(nil)})
}

// echo answers with the first input's memory as OUT, on the caller's goroutine.
func echo(r *infer.Request) error {
	now := backend.Now()
	r.Times.Queue, r.Times.ComputeStart = now, now
	return respond(r, r.Inputs[0], true)
}

func respond(r *infer.Request, t tensor.Tensor, final bool) error {
	t.Retain()
	t.Name = "OUT"
	_ = r.Respond(&backend.Response{Outputs: []tensor.Tensor{t}}, final)
	return nil
}

// later answers on a goroutine of its own, once a channel is closed or the
// request is cancelled.
func (h *fakeHost) later(wait <-chan struct{}) func(*infer.Request) error {
	return func(r *infer.Request) error {
		h.work.Go(func() {
			select {
			case <-wait:
				_ = echo(r)
			case <-r.Ctx.Done():
				r.Fail(&backend.Error{Code: backend.Cancelled, Message: "cancelled"}, infer.Canceled)
			}
		})
		return nil
	}
}

// answers keeps what a request was answered.
type answers struct {
	mu    sync.Mutex
	all   []*backend.Response
	final int
	hold  chan struct{} // when set, each Deliver takes one
}

func (a *answers) Deliver(r *infer.Request, resp *backend.Response, final bool) {
	if a.hold != nil && !final {
		select {
		case <-a.hold:
		case <-r.Ctx.Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if resp != nil {
		a.all = append(a.all, resp)
	}
	if final {
		a.final++
	}
}

func (a *answers) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var words []string
	for _, r := range a.all {
		if r.Err != nil {
			words = append(words, r.Err.Code.String()+": "+r.Err.Message)
			continue
		}
		for _, o := range r.Outputs {
			words = append(words, o.Name+"="+string(o.Data))
		}
	}
	return fmt.Sprintf("%s (final %d)", strings.Join(words, " | "), a.final)
}

// request makes a request with input X of the given text.
func request(ctx context.Context, text string, a *answers) (*infer.Request, *tensor.Buffer) {
	b := tensor.NewBuffer([]byte(text), nil)
	r := infer.New(a, nil)
	r.Ctx, r.Requested = ctx, []string{"Y"}
	r.Times.Start = backend.Now()
	r.Inputs = []tensor.Tensor{{Name: "X", Shape: tensor.Shape{1}, Data: b.Bytes(), Buffer: b}}
	return r, b
}

// settled checks that nothing is held any more.
func settled(t *testing.T, h *fakeHost, a *answers, b *tensor.Buffer) {
	t.Helper()
	h.work.Wait()
	for _, r := range a.all {
		r.Release()
	}
	if h.open != 0 || b.References() != 0 {
		t.Errorf("%d requests of steps are open, the input has %d references", h.open, b.References())
	}
}

const one = "e X:FP32[-1] -> Y:FP32[-1]"

func TestTensorsAreNotCopied(t *testing.T) {
	h := newHost(t)
	h.model("a IN:FP32[-1] -> OUT:FP32[-1]", echo)
	s := h.scheduler(0, one, "a IN=X -> OUT=t", "a IN=t -> OUT=u", "a IN=u -> OUT=Y")
	a := &answers{}
	r, b := request(t.Context(), "data", a)
	if err := s.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	if a.String() != "Y=data (final 1)" || &a.all[0].Outputs[0].Data[0] != &b.Bytes()[0] {
		t.Errorf("got %v, want the input's own memory", a)
	}
	settled(t, h, a, b)
}

func TestStepsSeeTheRequest(t *testing.T) {
	h := newHost(t)
	h.model("a IN:FP32[-1] -> OUT:FP32[-1]", func(r *infer.Request) error {
		if r.ID != "id" || r.Correlation.Number != 7 || r.Flags != backend.SequenceStart || r.Priority != 3 || r.Timeout != 9 ||
			r.Parameters[0].Text() != "v" || !slices.Equal(r.Requested, []string{"OUT"}) {
			t.Errorf("got %+v", r.Request)
		}
		r.Inputs[0].Retain()
		out := r.Inputs[0]
		out.Name = "OUT"
		_ = r.Respond(&backend.Response{Outputs: []tensor.Tensor{out}, Parameters: []backend.Parameter{
			backend.String("sequence_id", "new"), backend.Bool("sequence_start", false), backend.Bool("sequence_end", true),
			backend.String("other", "x"),
		}}, true)
		return nil
	})
	h.model("b IN:FP32[-1] -> OUT:FP32[-1]", func(r *infer.Request) error {
		if r.Correlation.Text != "new" || r.Flags != backend.SequenceEnd {
			t.Errorf("the response's sequence is lost: %+v", r.Request)
		}
		return echo(r)
	})
	s := h.scheduler(0, one, "a IN=X -> OUT=t", "b IN=t -> OUT=Y")
	a := &answers{}
	r, b := request(t.Context(), "data", a)
	r.ID, r.Correlation.Number, r.Flags, r.Priority, r.Timeout = "id", 7, backend.SequenceStart, 3, 9
	r.Parameters = []backend.Parameter{backend.String("k", "v")}
	if err := s.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	want := []backend.Parameter{
		backend.String("sequence_id", "new"), backend.Bool("sequence_start", false),
		backend.Bool("sequence_end", true),
	}
	if !slices.Equal(a.all[0].Parameters, want) {
		t.Errorf("got %v, want %v", a.all[0].Parameters, want)
	}
	settled(t, h, a, b)
}

func TestFailures(t *testing.T) {
	refuse := func(*infer.Request) error { return backend.Errorf(backend.Unavailable, "Exceeds maximum queue size") }
	fail := func(r *infer.Request) error {
		r.Fail(backend.Errorf(backend.InvalidArg, "no"), infer.Backend)
		return nil
	}
	twice := func(r *infer.Request) error {
		_ = respond(r, r.Inputs[0], false)
		return respond(r, r.Inputs[0], true)
	}
	nothing := func(r *infer.Request) error { return r.Respond(nil, true) }
	for name, c := range map[string]struct {
		run  func(*infer.Request) error
		want string
	}{
		"refused":     {refuse, "Unavailable: in ensemble 'e', Exceeds maximum queue size (final 1)"},
		"failed":      {fail, "Invalid argument: in ensemble 'e', no (final 1)"},
		"unknown":     {nil, "Not found: in ensemble 'e', Request for unknown model: 'bad' is not found (final 1)"},
		"two answers": {twice, "Internal: in ensemble 'e', expected a single response of model 'bad', got more (final 1)"},
		"no answer": {nothing, "Invalid argument: in ensemble 'e', [request id: <id_unknown>] " +
			"unexpected deadlock, at least one output is not set while no more ensemble steps can be made (final 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.model("bad IN:FP32[-1] -> OUT:FP32[-1]", c.run)
			h.model("good IN:FP32[-1] -> OUT:FP32[-1]", echo)
			s := h.scheduler(0, one, "good IN=X -> OUT=t", "bad IN=t -> OUT=u", "good IN=u -> OUT=Y")
			a := &answers{}
			r, b := request(t.Context(), "data", a)
			if err := s.Enqueue(r); err != nil {
				t.Fatal(err)
			}
			if a.String() != c.want {
				t.Errorf("got  %v\nwant %v", a, c.want)
			}
			settled(t, h, a, b)
		})
	}
}

func TestAFailureCancelsTheRest(t *testing.T) {
	h := newHost(t)
	h.model("slow IN:FP32[-1] -> OUT:FP32[-1]", h.later(nil))
	h.model("bad IN:FP32[-1] -> OUT:FP32[-1]", func(r *infer.Request) error {
		r.Fail(backend.Errorf(backend.Internal, "no"), infer.Backend)
		return nil
	})
	h.model("sum A:FP32[-1];B:FP32[-1] -> OUT:FP32[-1]", echo)
	s := h.scheduler(0, one, "slow IN=X -> OUT=l", "bad IN=X -> OUT=r", "sum A=l,B=r -> OUT=Y")
	a := &answers{}
	r, b := request(t.Context(), "data", a)
	if err := s.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	if a.String() != "Internal: in ensemble 'e', no (final 1)" || slices.Contains(h.log, "sum") {
		t.Errorf("got %v after %v", a, h.log)
	}
	if _, why := r.Failure(); why != infer.Other {
		t.Errorf("reason %v, want OTHER", why)
	}
	settled(t, h, a, b)
}

func TestCancelAndClose(t *testing.T) {
	for name, end := range map[string]func(cancel func(), s *Scheduler) error{
		"cancel": func(cancel func(), _ *Scheduler) error { cancel(); return nil },
		"close":  func(_ func(), s *Scheduler) error { return s.Close(context.Background()) },
	} {
		for _, inflight := range []int{0, 1} {
			t.Run(fmt.Sprint(name, inflight), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHost(t)
					h.model("slow IN:FP32[-1] -> OUT:FP32[-1]", h.later(nil))
					s := h.scheduler(inflight, one, "slow IN=X -> OUT=t", "slow IN=t -> OUT=Y")
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					all := make([]*answers, 3) // with a permit for one, the others wait for it
					buffers := make([]*tensor.Buffer, 3)
					var wg sync.WaitGroup
					for i := range all {
						all[i] = &answers{}
						var r *infer.Request
						r, buffers[i] = request(ctx, "data", all[i])
						wg.Go(func() { _ = s.Enqueue(r) })
					}
					synctest.Wait()
					if err := end(cancel, s); err != nil {
						t.Fatal(err)
					}
					wg.Wait()
					want := "Cancelled:  (final 1)"
					if name == "close" {
						want = "Unavailable: [request id: <id_unknown>] Server is stopping, scheduler for model has stopped accepting new inference " +
							"requests (final 1)"
					}
					for i, a := range all {
						if a.String() != want {
							t.Errorf("got  %v\nwant %v", a, want)
						}
						settled(t, h, a, buffers[i])
					}
					if err := s.Close(t.Context()); err != nil {
						t.Error(err)
					}
					r, _ := request(t.Context(), "data", &answers{})
					if err := s.Enqueue(r); name == "close" && err == nil {
						t.Error("a closed scheduler takes requests")
					}
				})
			})
		}
	}
}

// produce sends so many responses, each its number, and counts those that
// were taken.
func produce(n int, sent *int) func(*infer.Request) error {
	return func(r *infer.Request) error {
		for i := range n {
			b := tensor.NewBuffer(fmt.Append(nil, i), nil)
			err := r.Respond(&backend.Response{Outputs: []tensor.Tensor{{Name: "OUT", Shape: tensor.Shape{1}, Data: b.Bytes(), Buffer: b}}}, false)
			*sent = i + 1
			if err != nil {
				break
			}
		}
		_ = r.Respond(nil, true)
		return nil
	}
}

func TestDecoupledKeepsOrderAndBound(t *testing.T) {
	for _, inflight := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t)
			sent := 0
			h.model("many IN:FP32[-1] -> OUT:FP32[-1] decoupled", produce(200, &sent))
			h.model("one IN:FP32[-1] -> OUT:FP32[-1]", func(r *infer.Request) error {
				h.work.Go(func() {
					time.Sleep(time.Duration(len(r.Inputs[0].Data)%2) * time.Second) // out of order
					_ = echo(r)
				})
				return nil
			})
			s := h.scheduler(inflight, one, "many IN=X -> OUT=t", "one IN=t -> OUT=Y")
			a := &answers{hold: make(chan struct{})}
			r, b := request(t.Context(), "data", a)
			go func() { _ = s.Enqueue(r) }()
			synctest.Wait()
			time.Sleep(time.Hour) // a slow client is no reason to go on without a bound
			synctest.Wait()
			bound := window
			if inflight > 0 {
				bound = inflight
			}
			if sent > bound+1 {
				t.Errorf("%d responses were made for a client that takes none, the bound is %d", sent, bound)
			}
			close(a.hold)
			synctest.Wait()
			time.Sleep(time.Hour)
			synctest.Wait()
			if len(a.all) != 200 || a.final != 1 {
				t.Fatalf("%d responses, %d final", len(a.all), a.final)
			}
			for i, resp := range a.all {
				if got := string(resp.Outputs[0].Data); got != fmt.Sprint(i) {
					t.Fatalf("response %d is %s", i, got)
				}
			}
			settled(t, h, a, b)
		})
	}
}

// Two models that wait for each other go on after a while.
func TestAWaitingLoopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		sent := 0
		produced := make(chan struct{})
		make200 := produce(200, &sent)
		h.model("many IN:FP32[-1] -> OUT:FP32[-1] decoupled", func(r *infer.Request) error {
			defer close(produced)
			return make200(r)
		})
		h.model("one IN:FP32[-1] -> OUT:FP32[-1]", h.later(produced)) // as if it needed the other's instance
		s := h.scheduler(0, one, "many IN=X -> OUT=t", "one IN=t -> OUT=Y")
		a := &answers{}
		r, b := request(t.Context(), "data", a)
		start := time.Now()
		if err := s.Enqueue(r); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); len(a.all) != 200 || a.final != 1 || took < patience || took > 2*patience {
			t.Errorf("%d responses, %d final after %v", len(a.all), a.final, took)
		}
		settled(t, h, a, b)
	})
}

// A producer whose model is used again further on is never held back, but
// there is an end to it.
func TestAProducerThatCannotWait(t *testing.T) {
	h := newHost(t)
	sent := 0
	free := make(chan struct{})
	h.model("many IN:FP32[-1] -> OUT:FP32[-1] decoupled", func(r *infer.Request) error {
		if string(r.Inputs[0].Data) == "data" {
			return produce(limit+10, &sent)(r)
		}
		return h.later(free)(r)
	})
	s := h.scheduler(0, one, "many IN=X -> OUT=t", "many IN=t -> OUT=Y")
	a := &answers{}
	r, b := request(t.Context(), "data", a)
	if err := s.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	if want := "Unavailable: in ensemble 'e', more than 4096 responses of model 'many' wait for later steps (final 1)"; a.String() != want {
		t.Errorf("got  %v\nwant %v", a, want)
	}
	settled(t, h, a, b)
}

func TestMaxInflightRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		running, most := 0, 0
		h.model("a IN:FP32[-1] -> OUT:FP32[-1]", func(r *infer.Request) error {
			h.mu.Lock()
			running++
			most = max(most, running)
			h.mu.Unlock()
			go func() {
				time.Sleep(time.Second)
				h.mu.Lock()
				running--
				h.mu.Unlock()
				_ = echo(r)
			}()
			return nil
		})
		s := h.scheduler(2, one, "a IN=X -> OUT=Y")
		var wg sync.WaitGroup
		start := time.Now()
		for range 10 {
			wg.Go(func() {
				a := &answers{}
				r, _ := request(t.Context(), "data", a)
				_ = s.Enqueue(r)
				if a.String() != "Y=data (final 1)" {
					t.Errorf("got %v", a)
				}
			})
		}
		wg.Wait()
		if most != 2 || time.Since(start) != 5*time.Second || s.limits[0].free != 2 {
			t.Errorf("%d at once, took %v, %d permits left", most, time.Since(start), s.limits[0].free)
		}
	})
}

func TestStatisticsAreSumsOverTheSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.model("a IN:FP32[-1] -> OUT:FP32[-1]", func(r *infer.Request) error {
			r.Times.Queue = backend.Now()
			r.Times.ComputeStart = r.Times.Queue + 5
			r.Times.InputEnd = r.Times.ComputeStart + 10
			r.Times.OutputStart = r.Times.InputEnd + 20
			r.Times.ComputeEnd = r.Times.OutputStart + 30
			return respond(r, r.Inputs[0], true)
		})
		s := h.scheduler(0, one, "a IN=X -> OUT=t", "a IN=t -> OUT=Y")
		a := &answers{}
		r, b := request(t.Context(), "data", a)
		r.Owner = counter{s.o.Stats}
		_ = s.Enqueue(r)
		v := s.o.Stats.Snapshot()
		if v.ExecutionCount != 1 || v.InferenceCount != 1 || v.Queue.Nanos != 0 || v.ComputeInput.Nanos != 20 || v.ComputeInfer.Nanos != 40 ||
			v.ComputeOutput.Nanos != 60 {
			t.Errorf("got %+v", v)
		}
		settled(t, h, a, b)
	})
}

type counter struct{ *stats.Version }

func (counter) CheckResponse(*infer.Request, *backend.Response) {}

func (counter) CountResponse(*infer.Request, *backend.Response, int) {}
