package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func ensembleTree(t *testing.T) string {
	return nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "",
		"e/config.pbtxt": ensembleConfig("a", "b", "a"), "e/1/": "",
		"nested/config.pbtxt": ensembleConfig("e", "b", "e"), "nested/1/": "",
	})
}

func TestEnsembleServes(t *testing.T) {
	e := server(t, explicit(ensembleTree(t), "nested"), &nesotest.Echo{Name: "echo"})
	for range 3 {
		wantServed(t, e, "nested", -1, 1)
	}
	counts := map[string]uint64{}
	all, err := e.Statistics("", -1)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		s := v.Stats.Snapshot()
		counts[v.Name] = s.Success.Count
		if s.InferenceCount != s.Success.Count || s.ExecutionCount != s.Success.Count || s.ComputeInfer.Count != s.Success.Count {
			t.Errorf("%s: %+v", v.Name, s)
		}
	}
	// nested is e, b, e; e is a, b, a.
	if got, want := fmt.Sprint(counts), "map[a:12 b:9 e:6 nested:3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := ask(e, "e", 2); err == nil {
		t.Error("an unknown version is served")
	}
}

// While requests run, the models of the steps are reloaded again and again:
// none of them fails.
func TestEnsembleWhileAStepReloads(t *testing.T) {
	top := ensembleTree(t)
	e := server(t, explicit(top, "nested"), &nesotest.Echo{Name: "echo"})
	var stop atomic.Bool
	var served atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := ask(e, "nested", -1); err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := range 20 {
		for _, m := range []string{"a", "e", "nested"} {
			config := ""
			if m == "a" {
				config = strings.Replace(echoJSON, "{", fmt.Sprintf(`{"parameters":{"n":{"string_value":"%d"}},`, i), 1)
			}
			mustLoad(t, e, m, config, nil)
		}
	}
	stop.Store(true)
	wg.Wait()
	if served.Load() == 0 {
		t.Error("nothing was served")
	}
}

func TestUnloadingAStepUnderLoad(t *testing.T) {
	e := server(t, explicit(ensembleTree(t), "nested"), &nesotest.Echo{Name: "echo"})
	var wg sync.WaitGroup
	started := make(chan struct{}, 4)
	for range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				_, err := ask(e, "nested", -1)
				if i == 0 {
					started <- struct{}{}
				}
				if err == nil {
					continue
				}
				text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "in ensemble 'nested', "), "in ensemble 'e', ")
				if !strings.HasPrefix(text, "Request for unknown model: ") && !strings.Contains(text, "Server is stopping") {
					t.Error(err)
				}
				return
			}
		})
	}
	for range 4 {
		<-started
	}
	if err := e.Unload(t.Context(), "b", false); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	settle(t, e)
	wantIndex(t, e, "a 1 READY\nb 1 UNAVAILABLE unloaded\ne 1 UNAVAILABLE unloaded\nnested 1 UNAVAILABLE unloaded\n")
	mustLoad(t, e, "nested", "", nil)
	wantServed(t, e, "nested", -1, 1)
}

func TestEnsembleVersionsAndReadiness(t *testing.T) {
	top := ensembleTree(t)
	var broken atomic.Bool
	e := server(t, explicit(top, "e"), &nesotest.Echo{Name: "echo", OnReady: func(cfg backend.Config) error {
		if cfg.Name == "b" && broken.Load() {
			return backend.Errorf(backend.Unavailable, "its worker keeps ending")
		}
		return nil
	}})
	if err := e.ModelReady("e", -1); err != nil {
		t.Error(err)
	}
	broken.Store(true)
	if err := e.ModelReady("e", -1); err == nil || !strings.Contains(err.Error(), "its worker keeps ending") {
		t.Errorf("got %v", err)
	}
	broken.Store(false)

	// A step of the latest version follows when there is a newer one.
	nesotest.Put(t, top, "a/2/", "")
	mustLoad(t, e, "a", "", nil)
	settle(t, e)
	wantServed(t, e, "e", -1, 1)
	if s, err := e.Statistics("a", 2); err != nil || s[0].Stats.Snapshot().Success.Count != 2 {
		t.Error(s, err)
	}
}

// A step that is reloaded with another signature makes requests fail, not the
// server; the ensemble is checked anew when it is loaded.
func TestAStepThatNoLongerFits(t *testing.T) {
	top := ensembleTree(t)
	e := server(t, explicit(top, "e"), &nesotest.Echo{Name: "echo"})
	mustLoad(t, e, "b", strings.ReplaceAll(echoJSON, "FP32", "INT32"), nil)
	_, err := ask(e, "e", -1)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'e' has no available versions")
	if err := e.Ready(); err != nil {
		t.Error(err)
	}
	wantError(t, e.Load(t.Context(), "e", "", nil), backend.InvalidArg, "load failed for model 'e': "+
		"in ensemble e, ensemble tensor t0: inconsistent data type: TYPE_FP32 is inferred from model a while TYPE_INT32 is inferred from "+
		"model b; "+
		"in ensemble e, ensemble tensor t1: inconsistent data type: TYPE_INT32 is inferred from model b while TYPE_FP32 is inferred from "+
		"model a\n")
	mustLoad(t, e, "b", "", nil)
	wantServed(t, e, "e", -1, 1)
}

// A worker that dies is an error of its step, and the ensemble goes on.
func TestAStepThatDies(t *testing.T) {
	var dead atomic.Bool
	e := server(t, explicit(ensembleTree(t), "nested"), &nesotest.Echo{Name: "echo", OnExecute: func(_ context.Context, cfg backend.Config,
		_ *backend.Batch,
	) (bool, error) {
		if cfg.Name == "b" && dead.Load() {
			return false, backend.Errorf(backend.Internal, "the worker of model 'b' ended")
		}
		return false, nil
	}})
	dead.Store(true)
	_, err := ask(e, "nested", -1)
	wantError(t, err, backend.Internal, "in ensemble 'nested', in ensemble 'e', the worker of model 'b' ended")
	dead.Store(false)
	wantServed(t, e, "nested", -1, 1)
}

func TestEnsembleIsCancelledAndClosed(t *testing.T) {
	inside := make(chan struct{}, 1)
	e := server(t, explicit(ensembleTree(t), "nested"), &nesotest.Echo{Name: "echo", OnExecute: func(ctx context.Context, cfg backend.Config,
		b *backend.Batch,
	) (bool, error) {
		if cfg.Name != "b" {
			return false, nil
		}
		inside <- struct{}{}
		select {
		case <-b.Requests[0].Ctx.Done():
		case <-ctx.Done():
		}
		return false, backend.Errorf(backend.Cancelled, "stopped")
	}})
	send := func(ctx context.Context) <-chan *backend.Error {
		p, err := e.Resolve(t.Context(), "nested", -1, 8)
		if err != nil {
			t.Fatal(err)
		}
		sink, failed := infer.NewSingle(), make(chan *backend.Error, 1)
		r := p.NewRequest(sink)
		r.Ctx, r.Inputs = ctx, []tensor.Tensor{input(2)}
		go func() {
			if err := e.Infer(r); err != nil {
				failed <- backend.AsError(err)
				return
			}
			_, bad := sink.Wait()
			failed <- bad
		}()
		<-inside
		return failed
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := send(ctx)
	cancel()
	if err := <-failed; err == nil || err.Code != backend.Cancelled {
		t.Errorf("got %v", err)
	}

	failed = send(t.Context())
	end, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := e.Close(end); !isTimeout(err) {
		t.Errorf("Close: %v", err)
	}
	if err := <-failed; err == nil || err.Code != backend.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestEnsembleLabelsAndDecoupled(t *testing.T) {
	top := ensembleTree(t)
	nesotest.Put(t, top, "b/config.pbtxt", strings.Replace(echoConfig, `name: "OUT"`, `name: "OUT" label_filename: "labels.txt"`,
		1)+"model_transaction_policy { decoupled: true }\n")
	nesotest.Put(t, top, "b/labels.txt", "cat\ndog\n")
	nesotest.Put(t, top, "last/config.pbtxt", ensembleConfig("a", "b"))
	nesotest.Put(t, top, "last/1/", "")
	nesotest.Put(t, top, "outer/config.pbtxt", ensembleConfig("last"))
	nesotest.Put(t, top, "outer/1/", "")
	e := server(t, explicit(top, "outer"), &nesotest.Echo{Name: "echo"})
	p, err := e.Resolve(t.Context(), "outer", -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Unpin()
	if got := fmt.Sprint(p.Model.Labels("OUT")); got != "[cat dog]" {
		t.Errorf("labels %s", got)
	}
	if c := p.Model.Config(); !c.Decoupled || !strings.Contains(string(c.JSON()), `"model_transaction_policy":{"decoupled":true}`) {
		t.Errorf("not decoupled: %s", c.JSON())
	}
	if b, err := p.Model.Allocator().Allocate(8); err != nil {
		t.Error(err)
	} else {
		b.Release()
	}
}

// A step with sequences gets the id and the flags of the ensemble's request.
func TestEnsembleOfASequence(t *testing.T) {
	top := ensembleTree(t)
	nesotest.Put(t, top, "seq/config.pbtxt",
		echoConfig+`sequence_batching { control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } } }`)
	nesotest.Put(t, top, "seq/1/", "")
	nesotest.Put(t, top, "s/config.pbtxt", ensembleConfig("a", "seq", "b"))
	nesotest.Put(t, top, "s/1/", "")
	var starts atomic.Int64
	e := server(t, explicit(top, "s"), &nesotest.Echo{
		Name: "echo",
		OnExecute: func(_ context.Context, cfg backend.Config, b *backend.Batch) (bool, error) {
			if cfg.Name == "seq" {
				starts.Add(int64(b.Requests[0].Input("START").Data[0]))
			}
			return false, nil
		},
	})
	_, err := ask(e, "s", -1)
	if err == nil || !strings.HasPrefix(err.Error(), "in ensemble 's', ") || !strings.Contains(err.Error(), "correlation ID") {
		t.Errorf("got %v", err)
	}
	for i, flags := range []backend.Flags{backend.SequenceStart, 0, backend.SequenceEnd} {
		p, err := e.Resolve(t.Context(), "s", -1, 8)
		if err != nil {
			t.Fatal(err)
		}
		sink := infer.NewSingle()
		r := p.NewRequest(sink)
		r.Inputs = []tensor.Tensor{input(2)}
		r.Correlation.Text, r.Flags = "one", flags
		if err := e.Infer(r); err != nil {
			t.Fatal(err)
		}
		resp, bad := sink.Wait()
		if bad != nil {
			t.Fatal(i, bad)
		}
		if got := fmt.Sprint(resp.Parameters[0].Text(), resp.Parameters[1].IsTrue(), resp.Parameters[2].IsTrue()); got != fmt.Sprint("one",
			i == 0, i == 2) {
			t.Errorf("request %d: parameters %s", i, got)
		}
		resp.Release()
	}
	if starts.Load() != 1 {
		t.Errorf("%d starts, want 1", starts.Load())
	}
}
