package engine

import (
	"context"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// recorder keeps what a model is answered.
type recorder struct {
	responses []*backend.Response
	done      chan struct{}
}

func (r *recorder) Respond(resp *backend.Response, final bool) error {
	if resp != nil {
		r.responses = append(r.responses, resp)
	}
	if final {
		close(r.done)
	}
	return nil
}

func (r *recorder) Cancelled() bool { return false }

// call is a request of a model to another one.
func call(model string, to backend.Responder) *backend.Request {
	return &backend.Request{ID: "x", ModelName: model, ModelVersion: -1, Inputs: []tensor.Tensor{input(2)}, Responder: to}
}

func hosted(t *testing.T, o func(top string) Options) (*Engine, backend.Host) {
	t.Helper()
	var host backend.Host
	echo := &nesotest.Echo{Name: "echo", OnOpen: func(h backend.Host, _ backend.Settings) error {
		host = h
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	return server(t, o(top), echo), host
}

// again is the scheduler of a model with iterative sequences, of which nobody
// should ask anything.
type again struct{ t *testing.T }

func (a again) Reschedule() error { a.t.Error("rescheduled"); return nil }
func (a again) Settle(bool)       { a.t.Error("settled") }

// TestCallsComeBackToNoScheduler: a copy of a request that goes to another model,
// as a backend may make it, is not what the first model's scheduler takes back.
func TestCallsComeBackToNoScheduler(t *testing.T) {
	var host backend.Host
	seen := make(chan backend.Iterations, 1)
	echo := &nesotest.Echo{
		Name:   "echo",
		OnOpen: func(h backend.Host, _ backend.Settings) error { host = h; return nil },
		OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
			b.Requests[0].Settle(false)
			seen <- b.Requests[0].Iterations
			return false, nil
		},
	}
	server(t, explicit(nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""}), "a"), echo)
	to := &recorder{done: make(chan struct{})}
	req := call("a", to)
	req.Iterations = again{t}
	if err := host.Infer(req); err != nil {
		t.Fatal(err)
	}
	<-to.done
	if it := <-seen; it != nil {
		t.Errorf("it has the scheduler %T", it)
	}
}

func TestHost(t *testing.T) {
	e, host := hosted(t, func(top string) Options { return explicit(top, "a") })
	released := 0
	freed := releaser(func() { released++ })
	to := &recorder{done: make(chan struct{})}
	req := call("a", to)
	buffer := tensor.NewBuffer(make([]byte, 8), freed)
	req.Inputs[0].Buffer, req.Inputs[0].Data = buffer, buffer.Bytes()
	if err := host.Infer(req); err != nil {
		t.Fatal(err)
	}
	<-to.done
	if len(to.responses) != 1 || to.responses[0].Err != nil || len(to.responses[0].Outputs) != 1 {
		t.Error(to.responses)
	}
	if released != 0 {
		t.Error("the caller's input was released")
	}
	if buffer.Release(); released != 1 {
		t.Errorf("released %d times", released)
	}
	wantError(t, host.Infer(call("nope", to)), backend.Internal,
		"Model nope - Error when running inference: Failed for execute the inference request. Model 'nope' is not ready.")
	bad := call("a", to)
	bad.Inputs[0].Name = "ZZ"
	if err := host.Infer(bad); err == nil {
		t.Error("no error")
	}
	if host.Ready("b", -1) || !host.Ready("a", -1) || !host.Ready("a", 1) || host.Ready("a", 2) {
		t.Error("readiness")
	}
	if err := host.Load(t.Context(), "b", "", nil); err != nil || !host.Ready("b", -1) {
		t.Error(err)
	}
	if err := host.Unload(t.Context(), "b", false); err != nil || host.Ready("b", -1) {
		t.Error(err)
	}
	if host.Logger() == nil || host.Allocator() != e.Allocator() {
		t.Error("logger, allocator")
	}
}

type releaser func()

func (r releaser) ReleaseBuffer(*tensor.Buffer) { r() }

// TestModelLoadsAnother: a model that loads another one while it is itself
// being loaded must not wait for a load thread that it holds.
func TestModelLoadsAnother(t *testing.T) {
	var host backend.Host
	echo := &nesotest.Echo{
		Name:   "echo",
		OnOpen: func(h backend.Host, _ backend.Settings) error { host = h; return nil },
		OnLoad: func(ctx context.Context, cfg backend.Config) error {
			if cfg.Name == "a" {
				return host.Load(ctx, "b", "", nil)
			}
			return nil
		},
	}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	o := explicit(top)
	o.LoadThreads = 1
	e := server(t, o, echo)
	mustLoad(t, e, "a", "", nil)
	wantServed(t, e, "b", -1, 1)
}
