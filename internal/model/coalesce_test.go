package model

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// crowd is a model whose executions wait until a test lets them go.
type crowd struct {
	m       *Model
	runs    atomic.Int64
	started chan *backend.Request
	answer  chan func(*backend.Request) error
}

func newCrowd(t *testing.T, change ...func(*Options)) *crowd {
	t.Helper()
	k := &crowd{started: make(chan *backend.Request, 16), answer: make(chan func(*backend.Request) error, 16)}
	c := identityConfig()
	c.Parameters = map[string]string{coalesceParameter: "true"}
	s := &script{caps: backend.Capabilities{Depth: 8}, execute: func(_ context.Context, b *backend.Batch) error {
		k.runs.Add(1)
		k.started <- b.Requests[0]
		return (<-k.answer)(b.Requests[0])
	}}
	k.m = mustOpen(t, c, s.driver(), change...)
	return k
}

// send brings a request on a goroutine of its own, and returns once it has
// joined another one or is being executed.
func (k *crowd) send(t *testing.T, change func(*infer.Request)) *infer.Single {
	t.Helper()
	sink := infer.NewSingle()
	r := request(t, k.m, sink, fp32("INPUT0", 2))
	if change != nil {
		change(r)
	}
	before, joined := k.runs.Load(), k.waiting()
	go func() {
		if err := k.m.Infer(r); err != nil {
			r.Fail(err, infer.Rejected)
		}
	}()
	until(t, func() bool { return k.runs.Load() > before || k.waiting() > joined })
	return sink
}

func (k *crowd) waiting() (n int) {
	f := k.m.cache.flights
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.all {
		n += len(x.joined)
	}
	return n
}

func good(r *backend.Request) error {
	return r.Respond(&backend.Response{Outputs: []tensor.Tensor{fp32("OUTPUT0", 2)}}, true)
}

func bad(*backend.Request) error { return backend.Errorf(backend.InvalidArg, "no") }

func TestIdenticalRequestsShareAnExecution(t *testing.T) {
	k := newCrowd(t)
	var sinks []*infer.Single
	for range 5 {
		sinks = append(sinks, k.send(t, nil))
	}
	k.answer <- good
	for _, s := range sinks {
		resp, err := s.Wait()
		if err != nil || len(resp.Outputs) != 1 || len(resp.Outputs[0].Data) != 8 {
			t.Errorf("%+v, %v", resp, err)
		}
		resp.Release()
	}
	// An execution counts when it has ended, which is after its answers.
	until(t, func() bool { return k.m.Stats().Snapshot().ExecutionCount == 1 })
	s := k.m.Stats().Snapshot()
	if k.runs.Load() != 1 || s.Success.Count != 5 || s.Coalesced != 4 || s.ExecutionCount != 1 || s.ComputeInfer.Count != 1 ||
		s.Queue.Count != 5 || s.CacheHit.Count != 0 {
		t.Errorf("%d runs, statistics %+v", k.runs.Load(), s)
	}
	// What has been answered is no longer in flight.
	again := k.send(t, nil)
	k.answer <- good
	if resp, err := again.Wait(); err != nil || k.runs.Load() != 2 {
		t.Errorf("%v, %d runs", err, k.runs.Load())
	} else {
		resp.Release()
	}
}

func TestJoinedRequestsGetTheError(t *testing.T) {
	for name, c := range map[string]struct {
		execute func(*backend.Request) error
		want    string
	}{
		"an error":      {bad, "no"},
		"no response":   {func(r *backend.Request) error { return r.Respond(nil, true) }, "got 0"},
		"two responses": {func(r *backend.Request) error { _ = r.Respond(&backend.Response{}, false); return good(r) }, ""},
	} {
		k := newCrowd(t)
		leader, joined := k.send(t, nil), k.send(t, nil)
		k.answer <- c.execute
		_, want := leader.Wait()
		_, got := joined.Wait()
		if want == nil || got == nil || got.Message != want.Message || got.Code != want.Code || !strings.Contains(got.Message, c.want) {
			t.Errorf("%s: got %v, the leader %v", name, got, want)
		}
		if s := k.m.Stats().Snapshot(); s.Fail.Count+s.Success.Count != 2 || k.runs.Load() != 1 {
			t.Errorf("%s: %d runs, statistics %+v", name, k.runs.Load(), s)
		}
	}
}

func TestCancelledLeader(t *testing.T) {
	for name, execute := range map[string]func(*backend.Request) error{
		"that fails":              bad,
		"whose answer is useless": good,
	} {
		t.Run(name, func(t *testing.T) {
			k := newCrowd(t)
			ctx, cancel := context.WithCancel(t.Context())
			gone, cancelGone := context.WithCancel(t.Context())
			leader := k.send(t, func(r *infer.Request) { r.Ctx = ctx })
			also := k.send(t, func(r *infer.Request) { r.Ctx = gone })
			second, third := k.send(t, nil), k.send(t, nil)
			<-k.started
			cancel()
			cancelGone()
			k.answer <- execute
			if resp, err := leader.Wait(); err == nil {
				resp.Release()
			}
			if _, err := also.Wait(); err == nil || err.Code != backend.Cancelled {
				t.Errorf("the one that went too: %v", err)
			}
			<-k.started // the next one leads
			k.answer <- good
			for _, s := range []*infer.Single{second, third} {
				resp, err := s.Wait()
				if err != nil {
					t.Error(err)
					continue
				}
				resp.Release()
			}
			if k.runs.Load() != 2 {
				t.Errorf("%d runs", k.runs.Load())
			}
		})
	}
}

type program struct{ backend.Sender }

func TestWhoDoesNotJoin(t *testing.T) {
	k := newCrowd(t)
	sinks := []*infer.Single{k.send(t, nil)}
	for _, change := range []func(*infer.Request){
		func(r *infer.Request) { r.Inputs[0] = fp32("INPUT0", 3) },
		func(r *infer.Request) { r.Timeout = 5 },
		func(r *infer.Request) { r.Parameters = []backend.Parameter{backend.Int("p", 1)} },
		func(r *infer.Request) { r.Sender = program{} },                          // whose memory the answer may lie in
		func(r *infer.Request) { r.Internal = true },                             // from a model, which may be in flight itself
		func(r *infer.Request) { r.Requested = []string{"OUTPUT0"} },             // those that name no output may get an answer without it
		func(r *infer.Request) { r.Requested, r.Spare = []string{"OUTPUT0"}, 1 }, // and so may the step of an ensemble that can do without
	} {
		sinks = append(sinks, k.send(t, change))
	}
	if n := int(k.runs.Load()); n != len(sinks) {
		t.Errorf("%d of %d are executed", n, len(sinks))
	}
	for range sinks {
		k.answer <- bad
	}
	for _, s := range sinks {
		if _, err := s.Wait(); err == nil {
			t.Error("no error")
		}
	}
}

func TestCoalescingFillsTheCache(t *testing.T) {
	k := newCrowd(t, func(o *Options) { o.Config.ResponseCache = true }, use(localStore(t, "100000")))
	a, b := k.send(t, nil), k.send(t, nil)
	k.answer <- good
	hit := infer.NewSingle()
	for _, s := range []*infer.Single{a, b, hit} {
		if s == hit {
			if err := k.m.Infer(request(t, k.m, hit, fp32("INPUT0", 2))); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := s.Wait()
		if err != nil {
			t.Fatal(err)
		}
		resp.Release()
	}
	if s := k.m.Stats().Snapshot(); k.runs.Load() != 1 || s.CacheHit.Count != 1 || s.CacheMiss.Count != 1 || s.Coalesced != 1 ||
		s.Success.Count != 3 {
		t.Errorf("%d runs, %+v", k.runs.Load(), s)
	}
}

func TestRefusedLeader(t *testing.T) {
	k := newCrowd(t)
	f, x, sink := k.m.cache.flights, &pending{}, infer.NewSingle()
	r := request(t, k.m, infer.NewSingle(), fp32("INPUT0", 2))
	if err := k.m.io.check(r); err != nil {
		t.Fatal(err)
	}
	x.key, x.identity = k.m.key(r)
	if f.join(r, x) {
		t.Fatal("joined nothing")
	}
	if err := k.m.Infer(request(t, k.m, sink, fp32("INPUT0", 2))); err != nil {
		t.Fatal(err)
	}
	k.m.fail(f.land(x), backend.Errorf(backend.Unavailable, "Exceeds maximum queue size"), infer.Rejected)
	r.Discard()
	if _, err := sink.Wait(); err == nil || err.Code != backend.Unavailable {
		t.Errorf("got %v", err)
	}
	if len(f.all) != 0 {
		t.Error("the flight is left")
	}
}

func TestCoalescingIsRefused(t *testing.T) {
	for want, change := range map[string]func(*modelconfig.Config){
		"is 'yes', expected true or false": func(c *modelconfig.Config) { c.Parameters[coalesceParameter] = "yes" },
		"decoupled responses":              func(c *modelconfig.Config) { c.Decoupled = true },
		"preserve_ordering":                func(c *modelconfig.Config) { c.Dynamic = &modelconfig.DynamicBatching{PreserveOrdering: true} },
		"sequence batching":                func(c *modelconfig.Config) { c.Sequence = &modelconfig.SequenceBatching{} },
	} {
		c := identityConfig()
		c.Parameters = map[string]string{coalesceParameter: "true"}
		change(c)
		if _, err := open(t, c, identity.New()); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "model 'm'") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
