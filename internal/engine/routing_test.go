package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/tensor"
)

func wantLabelled(t *testing.T, e *Engine, label string, want int64) {
	t.Helper()
	p, err := e.ResolveFor(t.Context(), nil, nil, "a", rollout.Ask{Version: -1, Label: label}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Unpin()
	if p.Model.Version() != want {
		t.Errorf("%s is version %d, want %d", label, p.Model.Version(), want)
	}
}

func TestRules(t *testing.T) {
	e := ruled(t, &nesotest.Echo{}, "labels: {stable: 1}")
	wantServed(t, e, "a", -1, 2) // labels alone leave the latest
	wantLabelled(t, e, "stable", 1)
	if err := e.Route(t.Context(), "a", []byte(`{"labels": {"stable": 2, "old": 1}, "weights": {"old": 1}}`)); err != nil {
		t.Fatal(err)
	}
	wantLabelled(t, e, "stable", 2)
	wantServed(t, e, "a", -1, 1)
	if err := e.Load(t.Context(), "a", "", nil); err != nil {
		t.Fatal(err)
	}
	wantLabelled(t, e, "stable", 2) // the file is as it was: what was said since stays
	_, err := e.ResolveFor(t.Context(), nil, nil, "a", rollout.Ask{Version: -1, Label: "nope"}, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'a' has no version with the label 'nope'")
	if err := e.Unload(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	settle(t, e)
	_, err = e.ResolveFor(t.Context(), nil, nil, "a", rollout.Ask{Version: -1, Label: "stable"}, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'a' has no available versions")
	if err := e.Load(t.Context(), "a", "", nil); err != nil {
		t.Fatal(err)
	}
	wantLabelled(t, e, "stable", 1) // a model that is loaded anew has what its file says
	wantServed(t, e, "a", -1, 2)
}

// TestLabelsMoveAtOnce: while labels are exchanged again and again, each request finds
// a version, and two labels that change places in one change are never at the same one.
func TestLabelsMoveAtOnce(t *testing.T) {
	e := ruled(t, &nesotest.Echo{}, "labels: {x: 1, y: 2}")
	var asking sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				r, err := e.RoutingJSON("a")
				if err != nil {
					t.Error(err)
					return
				}
				var doc struct {
					Rules struct{ Labels map[string]int }
				}
				if json.Unmarshal(r, &doc) != nil || doc.Rules.Labels["x"]+doc.Rules.Labels["y"] != 3 {
					t.Errorf("got %s", r)
					return
				}
				p, err := e.ResolveFor(t.Context(), nil, nil, "a", rollout.Ask{Version: -1, Label: "x"}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				p.Unpin()
			}
		})
	}
	for i := range 200 {
		if err := e.Route(t.Context(), "a", fmt.Appendf(nil, `{"labels": {"x": %d, "y": %d}}`, 1+i%2, 2-i%2)); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	asking.Wait()
}

// TestStepsBack: the requests that fail are those that lead to it, and it is told in the
// index until told otherwise.
func TestStepsBack(t *testing.T) {
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, _ *backend.Batch) (bool, error) {
		if version(&cfg) == 2 {
			return false, errors.New("no")
		}
		return false, nil
	}}
	e := ruled(t, echo, "weights: {1: 1, 2: 1}\nstep_back: {from: 2, min_requests: 3, max_error_rate: 0.5}")
	failed := 0
	for range 200 {
		if _, err := ask(e, "a", -1); err != nil {
			failed++
		}
	}
	if failed != 3 {
		t.Errorf("%d requests failed, want 3", failed)
	}
	said := index(t, e)
	if !strings.Contains(said, "a 2 READY stepped back at ") || !strings.Contains(said, "100.0 % of 3 requests in 1m0s failed") {
		t.Errorf("the index says %s", said)
	}
	for _, change := range []string{`{"labels": {"b": 2}}`, `{"mirror": {"to": 2}}`, `{"resume": false}`} {
		if err := e.Route(t.Context(), "a", []byte(change)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(index(t, e), "stepped back") {
			t.Errorf("%s has ended it", change)
		}
	}
	if err := e.Route(t.Context(), "a", []byte(`{"resume": true}`)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(index(t, e), "stepped back") {
		t.Error("it goes on")
	}
}

// TestFromInside: what is not a client's goes to the primary version.
func TestFromInside(t *testing.T) {
	e := ruled(t, &nesotest.Echo{}, "weights: {1: 99, 2: 1}")
	for range 100 {
		p, err := e.pinFor(t.Context(), "", "a", &rollout.Ask{Version: -1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if p.Model.Version() != 1 {
			t.Fatalf("a request from inside went to version %d", p.Model.Version())
		}
		p.Unpin()
	}
	cfg, versions, err := e.Model("a", -1)
	if err != nil || cfg.Name != "a" || len(versions) != 2 {
		t.Errorf("got %v, %v, %v", cfg, versions, err)
	}
}

func TestRulesNeedExplicitMode(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	o := explicit(top)
	o.ControlMode, o.StartupModels, o.Words = "none", nil, "--"
	e := server(t, o, &nesotest.Echo{Name: "echo"})
	wantError(t, e.Route(t.Context(), "a", []byte("{}")), backend.Unavailable, "the rules for the versions of a model can be changed with "+
		"--model-control-mode=explicit only; otherwise the file rollout.yaml in the model's directory has them")
}

// inside sends a request as a model does.
func inside(e *Engine, name string, id backend.CorrelationID, flags backend.Flags) error {
	done := make(chan error, 1)
	err := e.Host().Infer(&backend.Request{
		ModelName: name, ModelVersion: -1, BatchSize: 1, Ctx: context.Background(), Responder: asked(done), Inputs: []tensor.Tensor{input(2)},
		Correlation: id, Flags: flags,
	})
	if err != nil {
		return err
	}
	return <-done
}

// TestLabelsFromInside: models and programs, who have numbers for versions, name a label
// in the model's name.
func TestLabelsFromInside(t *testing.T) {
	var last atomic.Int64
	e := ruled(t, &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, _ *backend.Batch) (bool, error) {
		last.Store(version(&cfg))
		return false, nil
	}}, "labels: {stable: 1, canary: 2}\nweights: {1: 1}")
	for name, want := range map[string]int64{"a": 1, "a@stable": 1, "a@canary": 2, "a@2": 2} {
		if err := inside(e, name, backend.CorrelationID{}, 0); err != nil || last.Load() != want {
			t.Errorf("%s: served by %d, %v; want %d", name, last.Load(), err, want)
		}
		if name == "a" {
			want = -1
		}
		if model, number, err := e.Numbered(name, -1); err != nil || model != "a" || number != want {
			t.Errorf("%s: %s version %d, %v; want %d", name, model, number, err, want)
		}
	}
	wantError(t, inside(e, "a@none", backend.CorrelationID{}, 0), backend.Internal,
		"Model a@none - Error when running inference: Request for unknown model: 'a' has no version with the label 'none'")
	wantError(t, inside(e, "b@stable", backend.CorrelationID{}, 0), backend.Internal,
		"Model b@stable - Error when running inference: Failed for execute the inference request. Model 'b@stable' is not ready.")
	if model, ask := e.Inside("a@canary", 1); model != "a@canary" || ask.Version != 1 {
		t.Errorf("beside a number: %s, %+v", model, ask)
	}
}

// TestOneChoiceForManyRequests: what was chosen once leads there, as long as it serves.
func TestOneChoiceForManyRequests(t *testing.T) {
	e := ruled(t, &nesotest.Echo{}, "labels: {x: 1}\nweights: {1: 1, 2: 1}")
	went := map[int64]bool{}
	for range 60 {
		ask := e.Settle("a", rollout.Ask{Version: -1})
		if !ask.Chosen || ask.Reason != rollout.ByWeight {
			t.Fatalf("got %+v", ask)
		}
		for range 3 {
			p, err := e.ResolveFor(t.Context(), nil, nil, "a", ask, 0)
			if err != nil {
				t.Fatal(err)
			}
			if p.Model.Version() != ask.Version || p.route.Reason != rollout.ByWeight {
				t.Fatalf("chosen %d, served by %d for %s", ask.Version, p.Model.Version(), p.route.Reason)
			}
			p.Unpin()
		}
		went[ask.Version] = true
	}
	if len(went) != 2 {
		t.Errorf("all went to %v", went)
	}
	if ask := e.Settle("a", rollout.Ask{Version: 2}); ask.Chosen {
		t.Errorf("a number is no choice: %+v", ask)
	}
	if ask := e.Settle("a", rollout.Ask{Version: -1, Label: "x"}); ask.Version != 1 || ask.Reason != rollout.ByLabel {
		t.Errorf("got %+v", ask)
	}
	p, err := e.ResolveFor(t.Context(), nil, nil, "a", rollout.Ask{Version: 9, Chosen: true}, 0)
	if err != nil || p.route.Reason != rollout.ByWeight {
		t.Fatalf("a version that is gone: %v, %v", p.route, err)
	}
	p.Unpin()
}

// askUntil asks version 2, and gives up once it is at work; it returns when the request has ended.
func askUntil(t *testing.T, e *Engine, begun <-chan struct{}) {
	t.Helper()
	p, err := e.Resolve(t.Context(), "a", 2, 8)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sink := infer.NewSingle()
	r := p.NewRequest(sink)
	r.Inputs, r.Ctx, r.Times.Start = []tensor.Tensor{input(2)}, ctx, backend.Now()
	go func() {
		if err := e.Infer(r); err != nil {
			t.Error(err)
		}
	}()
	<-begun
	cancel()
	if resp, failed := sink.Wait(); failed == nil {
		resp.Release()
		t.Error("it is answered")
	}
	for p.Model.Inflight() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestStepsBackForWhoGivesUp: a request that its client gave up is no error of the version
// that worked on it, whatever that says then; but it is one that took too long if it did.
func TestStepsBackForWhoGivesUp(t *testing.T) {
	for bounds, want := range map[string]bool{
		"max_error_rate: 0": false, "max_error_rate: 0, max_latency: 1h": false, "max_error_rate: 0, max_latency: 1us": true,
	} {
		begun := make(chan struct{})
		echo := &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, b *backend.Batch) (bool, error) {
			if version(&cfg) != 2 {
				return false, nil
			}
			close(begun)
			<-b.Requests[0].Ctx.Done()
			return false, errors.New("nobody waits")
		}}
		e := ruled(t, echo, "weights: {1: 1, 2: 1}\nstep_back: {from: 2, min_requests: 1, "+bounds+"}")
		askUntil(t, e, begun)
		if got := e.Routings()[0].Plan.Stepped != nil; got != want {
			t.Errorf("%s: stepped back: %t, want %t", bounds, got, want)
		}
	}
}
