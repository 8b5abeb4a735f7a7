package model

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/responsecache"
	"github.com/nesoserve/neso/tensor"
)

func localStore(t testing.TB, size string) responsecache.Store {
	t.Helper()
	s, err := responsecache.Open(t.Context(), responsecache.Options{
		Name: "local", Settings: map[string]string{"size": size},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func use(s responsecache.Store) func(*Options) { return func(o *Options) { o.Cache = s } }

func cachedConfig() *modelconfig.Config {
	c := identityConfig()
	c.ResponseCache = true
	return c
}

// twoOutputs is a model of one input and two outputs, the second of which has a
// reshape.
func twoOutputs() *modelconfig.Config {
	c := cachedConfig()
	c.MaxBatchSize = 4
	c.Inputs[0].Dims = tensor.Shape{2}
	c.Outputs[0].Dims = tensor.Shape{2}
	c.Outputs = append(c.Outputs, modelconfig.Output{
		Name: "OUTPUT1", Datatype: tensor.FP32, Dims: tensor.Shape{1, 2},
		Reshape: tensor.Shape{2}, HasReshape: true,
	})
	return c
}

// counting answers with the input as both outputs, as far as they are wanted.
func counting(runs *atomic.Int64) *script {
	return &script{execute: func(_ context.Context, b *backend.Batch) error {
		runs.Add(1)
		for _, r := range b.Requests {
			resp := &backend.Response{Parameters: []backend.Parameter{backend.Int("run", runs.Load())}}
			for _, name := range []string{"OUTPUT0", "OUTPUT1"} {
				if r.Wants(name) {
					t := r.Inputs[0]
					t.Name, t.Buffer, t.Data = name, nil, bytes.Clone(t.Data)
					resp.Outputs = append(resp.Outputs, t)
				}
			}
			_ = r.Respond(resp, true)
		}
		return nil
	}}
}

func TestSecondRequestHits(t *testing.T) {
	var runs atomic.Int64
	m := mustOpen(t, twoOutputs(), counting(&runs).driver(), use(localStore(t, "100000")))
	for i := range 3 {
		resp, err := ask(t, m, func(r *infer.Request) { r.ID = string(rune('a' + i)) }, fp32("INPUT0", 2, 2))
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Outputs) != 2 || resp.Outputs[1].Shape.String() != "[2,1,2]" || resp.Outputs[0].Name != "OUTPUT0" ||
			len(resp.Parameters) != 1 || resp.Parameters[0].Int64() != 1 {
			t.Errorf("request %d: %+v", i, resp)
		}
		if want := fp32("", 2, 2).Data; !bytes.Equal(resp.Outputs[0].Data, want) {
			t.Errorf("request %d: bytes %v, want %v", i, resp.Outputs[0].Data, want)
		}
		resp.Release()
	}
	s := m.Stats().Snapshot()
	if runs.Load() != 1 || s.Success.Count != 3 || s.Queue.Count != 3 || s.ComputeInfer.Count != 1 || s.CacheHit.Count != 2 ||
		s.CacheMiss.Count != 1 || s.InferenceCount != 2 || s.ExecutionCount != 1 {
		t.Errorf("%d runs, statistics %+v", runs.Load(), s)
	}
	if s.CacheHit.Nanos == 0 || s.CacheMiss.Nanos == 0 || m.cache == nil || m.Inflight() != 0 {
		t.Errorf("statistics %+v, in flight %d", s, m.Inflight())
	}
}

// TestNoTwoRequestsShareAnAnswer: what the peer takes for the same.
func TestNoTwoRequestsShareAnAnswer(t *testing.T) {
	for _, extras := range []bool{false, true} {
		t.Run(fmt.Sprintf("extras %t", extras), func(t *testing.T) { noTwoShareAnAnswer(t, extras) })
	}
}

func noTwoShareAnAnswer(t *testing.T, extras bool) {
	var runs atomic.Int64
	c := twoOutputs()
	c.Inputs[0].Dims = tensor.Shape{-1}
	c.Outputs[0].Dims = tensor.Shape{-1}
	c.Outputs[1] = modelconfig.Output{Name: "OUTPUT1", Datatype: tensor.FP32, Dims: tensor.Shape{-1}}
	s := counting(&runs)
	s.caps.ExtraOutputs = extras
	m := mustOpen(t, c, s.driver(), use(localStore(t, "100000")))
	want := int64(0)
	for name, q := range map[string]struct {
		change func(*infer.Request)
		input  tensor.Tensor
	}{
		"all":        {nil, fp32("INPUT0", 2, 2)},
		"shape":      {nil, fp32("INPUT0", 1, 4)},
		"one output": {func(r *infer.Request) { r.Requested = []string{"OUTPUT1"} }, fp32("INPUT0", 2, 2)},
		"parameter":  {func(r *infer.Request) { r.Parameters = []backend.Parameter{backend.Bool("p", true)} }, fp32("INPUT0", 2, 2)},
	} {
		for range 2 {
			resp, err := ask(t, m, q.change, q.input)
			if err != nil {
				t.Fatal(err)
			}
			if name == "one output" && (len(resp.Outputs) != 1 || resp.Outputs[0].Name != "OUTPUT1") {
				t.Errorf("%+v", resp.Outputs)
			}
			resp.Release()
		}
		if want++; runs.Load() != want {
			t.Errorf("%s: %d runs, want %d", name, runs.Load(), want)
		}
	}
	// To name all outputs, in any order, is to ask for all.
	resp, err := ask(t, m, func(r *infer.Request) { r.Requested = []string{"OUTPUT1", "OUTPUT0"} }, fp32("INPUT0", 2, 2))
	if err != nil || runs.Load() != want {
		t.Errorf("%v, %d runs, want %d", err, runs.Load(), want)
	}
	resp.Release()
}

// An output that nobody asked for is not in place of one that the answer lacks.
func TestAnExtraOutputIsNotTheOneThatLacks(t *testing.T) {
	s := &script{execute: func(_ context.Context, b *backend.Batch) error {
		return b.Requests[0].Respond(&backend.Response{Outputs: []tensor.Tensor{fp32("OUTPUT1", 1)}}, true)
	}}
	s.caps.ExtraOutputs, s.caps.LooseOutputs = true, true
	store := localStore(t, "100000")
	m := mustOpen(t, twoOutputs(), s.driver(), use(store))
	resp, err := ask(t, m, func(r *infer.Request) { r.Requested = []string{"OUTPUT0"} }, fp32("INPUT0", 2, 2))
	if err != nil || len(resp.Outputs) != 1 || store.Numbers().Entries != 0 {
		t.Errorf("%v, %+v, %+v", err, resp, store.Numbers())
	}
	resp.Release()
}

func TestWhatIsNotStored(t *testing.T) {
	respond := func(n int, outputs ...tensor.Tensor) func(context.Context, *backend.Batch) error {
		return func(_ context.Context, b *backend.Batch) error {
			for range n {
				_ = b.Requests[0].Respond(&backend.Response{Outputs: append([]tensor.Tensor(nil), outputs...)}, false)
			}
			return b.Requests[0].Respond(nil, true)
		}
	}
	out := fp32("OUTPUT0", 1)
	for name, execute := range map[string]func(context.Context, *backend.Batch) error{
		"an error": func(context.Context, *backend.Batch) error {
			return backend.Errorf(backend.InvalidArg, "no")
		},
		"no response":    respond(0),
		"two responses":  respond(2, out),
		"a wrong output": respond(1, fp32("OUTPUT0", 2, 2)),
	} {
		t.Run(name, func(t *testing.T) {
			c := cachedConfig()
			c.Inputs[0].Dims, c.Outputs[0].Dims = tensor.Shape{1}, tensor.Shape{1}
			store := localStore(t, "100000")
			m := mustOpen(t, c, (&script{execute: execute}).driver(), use(store), func(o *Options) { o.StrictOutputs = true })
			for range 2 {
				if resp, err := ask(t, m, nil, fp32("INPUT0", 1)); err == nil {
					resp.Release()
					t.Error("no error")
				}
			}
			if n := store.Numbers(); n.Entries != 0 || n.Lookups != 2 {
				t.Errorf("%+v", n)
			}
			if s := m.Stats().Snapshot(); s.CacheMiss.Count != 0 || s.CacheHit.Count != 0 {
				t.Errorf("statistics %+v", s)
			}
		})
	}
	t.Run("an answer to nobody", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := localStore(t, "100000")
		m := mustOpen(t, cachedConfig(), (&script{execute: func(_ context.Context, b *backend.Batch) error {
			cancel() // the model sees that and cuts its answer short
			return b.Requests[0].Respond(&backend.Response{Outputs: []tensor.Tensor{out}}, true)
		}}).driver(), use(store))
		resp, err := ask(t, m, func(r *infer.Request) { r.Ctx = ctx }, fp32("INPUT0", 1))
		if err != nil || store.Numbers().Entries != 0 {
			t.Errorf("%v, %+v", err, store.Numbers())
		}
		resp.Release()
	})
}

func TestTooLargeIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	m := mustOpen(t, cachedConfig(), identity.New(), use(localStore(t, "1024")), func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	for range 3 {
		resp, err := ask(t, m, nil, fp32("INPUT0", 1000))
		if err != nil {
			t.Fatal(err)
		}
		resp.Release()
	}
	if got := strings.Count(log.String(), "is greater than total cache size"); got != 1 || m.Stats().Snapshot().CacheMiss.Count != 3 {
		t.Errorf("logged %d times, %d misses", got, m.Stats().Snapshot().CacheMiss.Count)
	}
}

func TestEachLoadBeginsAnew(t *testing.T) {
	store := localStore(t, "100000")
	for load := range int64(2) {
		var runs atomic.Int64
		m := mustOpen(t, twoOutputs(), counting(&runs).driver(), use(store))
		resp, err := ask(t, m, nil, fp32("INPUT0", 1, 2))
		if err != nil {
			t.Fatal(err)
		}
		resp.Release()
		if runs.Load() != 1 || store.Numbers().Hits != 0 {
			t.Errorf("load %d is answered by another", load)
		}
	}
}

func TestWhereThereIsNoCache(t *testing.T) {
	store := localStore(t, "100000")
	for name, c := range map[string]struct {
		change func(*modelconfig.Config)
		store  responsecache.Store
		log    string
	}{
		"not enabled":        {func(c *modelconfig.Config) { c.ResponseCache = false }, store, ""},
		"no cache":           {func(*modelconfig.Config) {}, nil, "the server has none"},
		"decoupled ensemble": {func(c *modelconfig.Config) { c.Decoupled = true }, store, "not used for a decoupled ensemble"},
	} {
		var log strings.Builder
		conf := cachedConfig()
		c.change(conf)
		m := mustOpen(t, conf, identity.New(), use(c.store), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if (m.cache != nil) || !strings.Contains(log.String(), c.log) || c.log == "" && log.Len() > 0 {
			t.Errorf("%s: cached %v, log %q", name, (m.cache != nil), log.String())
		}
	}
}

func TestHitKeepsTheOrder(t *testing.T) {
	c := cachedConfig()
	c.MaxBatchSize = 1
	c.Dynamic = &modelconfig.DynamicBatching{PreserveOrdering: true}
	gate := make(chan struct{})
	m := mustOpen(t, c, (&script{execute: func(_ context.Context, b *backend.Batch) error {
		if b.Requests[0].ID == "slow" {
			<-gate
		}
		return answering(fp32("OUTPUT0", 1, 1))(t.Context(), b)
	}}).driver(), use(localStore(t, "100000")))
	resp, err := ask(t, m, nil, fp32("INPUT0", 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	resp.Release()
	slow, hit := infer.NewSingle(), infer.NewSingle()
	first := request(t, m, slow, fp32("INPUT0", 1, 2)) // another input: a miss
	first.ID, first.Background = "slow", true
	if err := m.Infer(first); err != nil {
		t.Fatal(err)
	}
	second := request(t, m, hit, fp32("INPUT0", 1, 1))
	second.Hold()
	if err := m.Infer(second); err != nil {
		t.Fatal(err)
	}
	if !second.Cache.Hit || second.Ended() {
		t.Errorf("hit %v, answered before its turn %v", second.Cache.Hit, second.Ended())
	}
	close(gate)
	if resp, err := slow.Wait(); err == nil { // its shape is wrong, which is not the point
		resp.Release()
	}
	if resp, err := hit.Wait(); err != nil {
		t.Error(err)
	} else {
		resp.Release()
	}
	second.Drop()
}

// stranger is a shared store that holds whatever a test puts there.
type stranger struct {
	responsecache.Store
	entry func() *responsecache.Entry
	bad   atomic.Int64
}

func (s *stranger) Shared() bool { return true }

func (s *stranger) Lookup(context.Context, responsecache.Key) *responsecache.Entry { return s.entry() }

func (s *stranger) Discredit(responsecache.Key, error) { s.bad.Add(1) }

func TestForeignEntriesMustFitTheModel(t *testing.T) {
	p := memory.New(memory.Options{})
	defer p.Close()
	c := twoOutputs()
	c.Outputs[1].HasReshape = false
	one, two := fp32("OUTPUT0", 2, 2), fp32("OUTPUT1", 2, 1, 2)
	two.Name = "OUTPUT1"
	for name, k := range map[string]struct {
		outputs []tensor.Tensor
		bad     int64
	}{
		"fits":                 {[]tensor.Tensor{one, two}, 0},
		"an output is missing": {[]tensor.Tensor{one}, 1},
		"an output twice":      {[]tensor.Tensor{one, one}, 1},
		"an unknown output":    {[]tensor.Tensor{one, fp32("OUTPUT2", 2, 1, 2)}, 1},
		"another batch size":   {[]tensor.Tensor{one, fp32("OUTPUT1", 1, 1, 2)}, 1},
		"another shape":        {[]tensor.Tensor{one, fp32("OUTPUT1", 2, 2, 1)}, 1},
		"no shape":             {[]tensor.Tensor{one, fp32("OUTPUT1")}, 1},
		"another datatype":     {[]tensor.Tensor{{Name: "OUTPUT0", Datatype: tensor.Int32, Shape: one.Shape, Data: one.Data}, two}, 1},
	} {
		var runs atomic.Int64
		s := &stranger{Store: localStore(t, "100000"), entry: func() *responsecache.Entry {
			e, err := responsecache.NewEntry(&backend.Response{Outputs: k.outputs}, 1000, p)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}}
		conf := *c
		conf.Outputs = append([]modelconfig.Output(nil), c.Outputs...)
		m := mustOpen(t, &conf, (&script{execute: func(_ context.Context, b *backend.Batch) error {
			runs.Add(1)
			return answering(one, two)(t.Context(), b)
		}}).driver(), use(s))
		resp, err := ask(t, m, nil, fp32("INPUT0", 2, 2))
		if err != nil || s.bad.Load() != k.bad || runs.Load() != k.bad {
			t.Errorf("%s: %v, %d found bad, %d runs", name, err, s.bad.Load(), runs.Load())
		}
		resp.Release()
	}
}

// TestHitAllocations bounds what a hit takes: the response and its outputs, on
// top of the request.
func TestHitAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	m := mustOpen(t, cachedConfig(), identity.New(), use(localStore(t, "100000")))
	run := hitting(t, m)
	run()
	if got := testing.AllocsPerRun(200, run); got > 5 {
		t.Errorf("%v allocations for a hit", got)
	}
}

// hitting returns what sends one request of 16 floats and waits for its answer.
func hitting(t testing.TB, m *Model) func() {
	sink, ctx, one := infer.NewSingle(), context.Background(), fp32("INPUT0", 16)
	inputs := make([]tensor.Tensor, 1)
	done := func(*infer.Request) { m.Unpin() }
	return func() {
		m.Pin()
		inputs[0] = one // ending a request clears them
		if err := m.Infer(ready(ctx, infer.New(sink, done), m, inputs)); err != nil {
			t.Fatal(err)
		}
		resp, err := sink.Wait()
		if err != nil {
			t.Fatal(err)
		}
		resp.Release()
	}
}

func BenchmarkCacheHit(b *testing.B) {
	m := mustOpen(b, cachedConfig(), identity.New(), use(localStore(b, "100000")))
	run := hitting(b, m)
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}
