package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/tensor"
)

// ruled is a model with two versions and rules.
func ruled(t *testing.T, echo *nesotest.Echo, rules string) *Engine {
	t.Helper()
	echo.Name = "echo"
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig + "version_policy { all { } }\n", "a/1/": "", "a/2/": "", "a/rollout.yaml": rules,
	})
	return server(t, explicit(top, "a"), echo)
}

// mirrored waits until n copies have ended, and returns what became of them.
func mirrored(t *testing.T, e *Engine, n int64) string {
	t.Helper()
	for {
		counts := e.Routings()[0].Numbers.Mirrored[2]
		var sum int64
		var text []string
		for o, count := range counts {
			if sum += count; count > 0 {
				text = append(text, rollout.Outcome(o).String())
			}
		}
		if sum >= n {
			return strings.Join(text, " ")
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%d copies have ended, want %d", sum, n)
		case <-time.After(time.Millisecond):
		}
	}
}

func version(cfg *backend.Config) int64 { return cfg.Version }

// wantFree holds that neither copies nor their memory are left.
func wantFree(t *testing.T, e *Engine) {
	t.Helper()
	for e.Routings()[0].Live.Held.Load() != 0 || e.admission.ledger.Held(ledger.In) != 0 {
		select {
		case <-t.Context().Done():
			t.Fatalf("%d copies, %d bytes are left", e.Routings()[0].Live.Held.Load(), e.admission.ledger.Held(ledger.In))
		case <-time.After(time.Millisecond):
		}
	}
}

func TestMirror(t *testing.T) {
	for want, execute := range map[string]func(batch *backend.Batch) (bool, error){
		"equal":  func(*backend.Batch) (bool, error) { return false, nil },
		"failed": func(*backend.Batch) (bool, error) { return false, errors.New("no") },
		"different": func(b *backend.Batch) (bool, error) {
			b.Requests[0].Inputs[0].Data[0]++
			return false, nil
		},
	} {
		t.Run(want, func(t *testing.T) {
			echo := &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, batch *backend.Batch) (bool, error) {
				if version(&cfg) == 2 {
					return execute(batch)
				}
				return false, nil
			}}
			e := ruled(t, echo, "weights: {1: 1}\nmirror: {to: 2}")
			wantServed(t, e, "a", -1, 1)
			if got := mirrored(t, e, 1); got != want {
				t.Errorf("got %s", got)
			}
			wantFree(t, e)
			_, _ = ask(e, "a", 2) // what the version answers itself is not copied to it
			if got := mirrored(t, e, 1); got != want {
				t.Errorf("got %s", got)
			}
			wantFree(t, e)
		})
	}
}

// TestMirrorSeesWhatCame: the copy is of what the client has sent, whatever the version
// that answers does to its inputs.
func TestMirrorSeesWhatCame(t *testing.T) {
	var saw atomic.Uint32
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, batch *backend.Batch) (bool, error) {
		data := batch.Requests[0].Inputs[0].Data
		if version(&cfg) == 1 {
			data[0] = 7
		} else {
			saw.Store(uint32(data[0]) + 100)
		}
		return false, nil
	}}
	e := ruled(t, echo, "weights: {1: 1}\nmirror: {to: 2}")
	wantServed(t, e, "a", -1, 1)
	if got := mirrored(t, e, 1); got != "different" || saw.Load() != 100 {
		t.Errorf("got %s; the copy brought %d", got, saw.Load())
	}
}

// TestMirrorHoldsNothingUp: a version that does not answer costs its copies, and no
// client; what does not fit into the queue is dropped, and all of it ends with the server.
func TestMirrorHoldsNothingUp(t *testing.T) {
	begun := make(chan struct{}, 100)
	echo := &nesotest.Echo{OnExecute: func(ctx context.Context, cfg backend.Config, batch *backend.Batch) (bool, error) {
		if version(&cfg) == 2 {
			begun <- struct{}{}
			<-batch.Requests[0].Ctx.Done()
		}
		return false, ctx.Err()
	}}
	e := ruled(t, echo, "weights: {1: 1}\nmirror: {to: 2, concurrency: 1, queue: 2, timeout: 1h}")
	for range 10 {
		wantServed(t, e, "a", -1, 1)
	}
	<-begun
	if got := mirrored(t, e, 7); got != "dropped" {
		t.Errorf("got %s", got)
	}
	if n := e.Routings()[0].Live.Held.Load(); n != 3 {
		t.Errorf("%d copies are held, want 3", n)
	}
	if held := e.admission.ledger.Held(ledger.In); held != 3*16 {
		t.Errorf("%d bytes are counted, want the inputs and the answers of 3 copies", held)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestMirrorTimesOut: a copy ends by its own timeout.
func TestMirrorTimesOut(t *testing.T) {
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, batch *backend.Batch) (bool, error) {
		if version(&cfg) == 2 {
			<-batch.Requests[0].Ctx.Done()
			return false, errors.New("given up")
		}
		return false, nil
	}}
	e := ruled(t, echo, "weights: {1: 1}\nmirror: {to: 2, timeout: 1ms}")
	wantServed(t, e, "a", -1, 1)
	if got := mirrored(t, e, 1); got != "failed" {
		t.Errorf("got %s", got)
	}
	wantFree(t, e)
}

// TestMirrorOfWhatFails: there is nothing to compare with, and nothing is sent.
func TestMirrorOfWhatFails(t *testing.T) {
	var copies atomic.Int32
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, _ *backend.Batch) (bool, error) {
		if version(&cfg) == 2 {
			copies.Add(1)
		}
		return false, errors.New("no")
	}}
	e := ruled(t, echo, "weights: {1: 1}\nmirror: {to: 2}")
	if _, err := ask(e, "a", -1); err == nil {
		t.Error("no error")
	}
	p, err := e.Resolve(t.Context(), "a", -1, 8)
	if err != nil {
		t.Fatal(err)
	}
	r := p.NewRequest(infer.NewSingle()) // without an input: it is refused
	if err := e.Infer(r); err == nil {
		t.Error("no error")
	}
	if got := mirrored(t, e, 2); got != "skipped" || copies.Load() != 0 {
		t.Errorf("got %s, %d copies were sent", got, copies.Load())
	}
	wantFree(t, e)
}

// TestMirrorLeavesRoom: copies come only where half of the ledger is free.
func TestMirrorLeavesRoom(t *testing.T) {
	echo := &nesotest.Echo{Name: "echo"}
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig + "version_policy { all { } }\n", "a/1/": "", "a/2/": "",
		"a/rollout.yaml": "weights: {1: 1}\nmirror: {to: 2}",
	})
	o := explicit(top, "a")
	o.MaxQueuedBytes = 30
	e := server(t, o, echo)
	wantServed(t, e, "a", -1, 1) // 8 of the request, 8 of the copy and 15 are more than 30
	if got := mirrored(t, e, 1); got != "dropped" {
		t.Errorf("got %s", got)
	}
	wantFree(t, e)
}

// TestMirrorCountsTexts: an id may be as long as a body, and the copy has its own.
func TestMirrorCountsTexts(t *testing.T) {
	for id, want := range map[string]string{"short": "equal", strings.Repeat("long", 1000): "dropped"} {
		echo := &nesotest.Echo{Name: "echo"}
		top := nesotest.Tree(t, map[string]string{
			"a/config.pbtxt": echoConfig + "version_policy { all { } }\n", "a/1/": "", "a/2/": "",
			"a/rollout.yaml": "weights: {1: 1}\nmirror: {to: 2}",
		})
		o := explicit(top, "a")
		o.MaxQueuedBytes = 2000
		e := server(t, o, echo)
		p, err := e.Resolve(t.Context(), "a", -1, 8)
		if err != nil {
			t.Fatal(err)
		}
		sink := infer.NewSingle()
		r := p.NewRequest(sink)
		r.ID, r.Inputs, r.Times.Start = id, []tensor.Tensor{input(2)}, backend.Now()
		if err := e.Infer(r); err != nil {
			t.Fatal(err)
		}
		resp, failed := sink.Wait()
		if failed != nil {
			t.Fatal(failed)
		}
		resp.Release()
		if got := mirrored(t, e, 1); got != want {
			t.Errorf("an id of %d bytes: got %s, want %s", len(id), got, want)
		}
		wantFree(t, e)
	}
}

// TestMirrorOfWhatLeaves: copies that wait when their model is unloaded have not been sent,
// and say nothing of the version that they were for.
func TestMirrorOfWhatLeaves(t *testing.T) {
	begun, open := make(chan struct{}, 100), make(chan struct{})
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, _ *backend.Batch) (bool, error) {
		if version(&cfg) == 2 {
			begun <- struct{}{}
			<-open
		}
		return false, nil
	}}
	e := ruled(t, echo, "weights: {1: 1}\nmirror: {to: 2, concurrency: 1, queue: 2}")
	for range 3 {
		wantServed(t, e, "a", -1, 1)
	}
	<-begun
	live := e.Routings()[0].Live
	if err := e.Unload(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	close(open)
	for live.Held.Load() != 0 {
		select {
		case <-t.Context().Done():
			t.Fatalf("%d copies are left", live.Held.Load())
		case <-time.After(time.Millisecond):
		}
	}
	var want [rollout.Outcomes]int64
	want[rollout.Equal], want[rollout.Dropped] = 1, 2
	if got := live.Numbers(0).Mirrored[2]; got != want {
		t.Errorf("equal, close, different, failed, skipped, dropped: %v, want %v", got, want)
	}
}

// TestMirrorOfWhatHangs: a copy that goes on beyond its timeout, whatever is said to it, has
// failed by then; what it holds stays counted until it ends.
func TestMirrorOfWhatHangs(t *testing.T) {
	open := make(chan struct{})
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, _ *backend.Batch) (bool, error) {
		if version(&cfg) == 2 {
			<-open
		}
		return false, nil
	}}
	e := ruled(t, echo, "weights: {1: 1}\nmirror: {to: 2, timeout: 1ms}")
	wantServed(t, e, "a", -1, 1)
	if got := mirrored(t, e, 1); got != "failed" {
		t.Errorf("got %s", got)
	}
	r := e.Routings()[0]
	if n := r.Live.Held.Load(); n != 1 || r.Numbers.Difference != "the copy failed: it has taken longer than 1ms" {
		t.Errorf("%d copies are held, the last difference is %q", n, r.Numbers.Difference)
	}
	close(open)
	wantFree(t, e)
	if got := mirrored(t, e, 1); got != "failed" {
		t.Errorf("in the end %s", got)
	}
}
