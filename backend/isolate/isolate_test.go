package isolate

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// TestMain is also the worker: the tests start this program again.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "isolate" {
		os.Exit(Main([]backend.Driver{{Name: "echo", Open: openEcho}}))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // the workers of a race build would each sleep a second at their end
	nesotest.Main(m)
}

// echo is a backend whose output is its input. An element that begins with 0xEE
// kills the process as a library does that aborts; one with 0xEF is an error of
// its request.
type echo struct{ backend.Config }

func openEcho(context.Context, backend.Host, backend.Settings) (backend.Backend, error) {
	return &echo{}, nil
}

func (*echo) Capabilities() backend.Capabilities {
	return backend.Capabilities{Gather: true, Completes: true, CopiesOutputs: true}
}

func (*echo) Complete(_ context.Context, cfg backend.Config) ([]byte, error) {
	if cfg.Filename == "bad" {
		return nil, backend.Errorf(backend.Unsupported, "this file is bad")
	}
	return []byte(`{"name":"` + cfg.Name + `"}`), nil
}

func (e *echo) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	if cfg.Filename == "bad" {
		return nil, backend.Errorf(backend.Unsupported, "this file is bad")
	}
	return &echo{cfg}, nil
}
func (*echo) Allocator() tensor.Allocator { return nil }
func (*echo) Ready() error                { return nil }
func (*echo) Close() error                { return nil }
func (e *echo) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	return e, nil
}

func (e *echo) Execute(_ context.Context, b *backend.Batch) error {
	if e.Decoupled {
		for _, r := range b.Requests {
			go many(r)
		}
		return nil
	}
	bad := false
	whole := e.Filename == "whole" // an error is that of the batch
	for _, in := range b.Inputs {
		if len(in.Data) > 0 && in.Data[0] == 0xEE {
			abort()
			select {}
		}
	}
	for _, r := range b.Requests {
		bad = bad || len(r.Inputs) > 0 && len(r.Inputs[0].Data) > 3 && r.Inputs[0].Data[3] == 0xFF
	}
	if bad && whole {
		return backend.Errorf(backend.InvalidArg, "negative")
	}
	if !bad && e.MaxBatchSize > 0 {
		t := b.Inputs[0]
		t.Name, t.Buffer = "OUT", nil
		return b.Scatter([]tensor.Tensor{t})
	}
	for _, r := range b.Requests {
		resp := &backend.Response{}
		if t := r.Inputs[0]; bad && t.Data[3] == 0xFF {
			resp.Err = backend.Errorf(backend.InvalidArg, "negative")
		} else {
			t.Name, t.Buffer = "OUT", nil
			resp.Outputs = []tensor.Tensor{t}
		}
		_ = r.Respond(resp, true)
	}
	return nil
}

// many answers after Execute: with the input, as often as its first element says.
func many(r *backend.Request) {
	in := r.Inputs[0]
	for range binary.LittleEndian.Uint32(in.Data) {
		t := in
		t.Name, t.Buffer = "OUT", nil
		if r.Cancelled() || r.Respond(&backend.Response{Outputs: []tensor.Tensor{t}}, false) != nil {
			break
		}
	}
	_ = r.Respond(nil, true)
}

func driver(t *testing.T) backend.Driver {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Wrap(backend.Driver{Name: "echo", Open: openEcho}, Options{Binary: self})
}

func config(d tensor.Datatype, batch int, dims ...int64) backend.Config {
	return backend.Config{
		Name: "model", Version: 1, MaxBatchSize: batch, Parameters: map[string]string{Param: "process"},
		Inputs: []backend.IO{{Name: "IN", Datatype: d, Dims: dims}}, Outputs: []backend.IO{{Name: "OUT", Datatype: d, Dims: dims}},
		Instances: []backend.InstanceConfig{{Name: "model_0_0", Kind: "KIND_CPU"}},
	}
}

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Driver: driver(t),
		Identity: func(_ *testing.T, d tensor.Datatype, batch int) backend.Config {
			return config(d, batch, -1)
		},
		Failing: func(*testing.T) backend.Config { return config(tensor.Int32, 8, 1) },
		FailingBatch: func(*testing.T) backend.Config {
			cfg := config(tensor.Int32, 8, 1)
			cfg.Filename = "whole"
			return cfg
		},
		Decoupled: func(_ *testing.T, n int) (backend.Config, []tensor.Tensor) {
			cfg := config(tensor.Int32, 0, -1)
			cfg.Decoupled = true
			data := binary.LittleEndian.AppendUint32(nil, uint32(n))
			if n == 5 { // more than a frame takes
				data = append(data, make([]byte, 64<<10)...)
			}
			return cfg, []tensor.Tensor{{Name: "IN", Datatype: tensor.Int32, Shape: tensor.Shape{int64(len(data) / 4)}, Data: data}}
		},
		Broken: func(*testing.T) backend.Config {
			cfg := config(tensor.Int32, 8, 1)
			cfg.Filename = "bad"
			return cfg
		},
	})
}

// server is the host of the tests.
type server struct {
	backend.Host
	memory *memory.Pool
}

func (h *server) Allocator() tensor.Allocator { return h.memory }
func (h *server) Logger() *slog.Logger        { return slog.New(slog.DiscardHandler) }

// answers collects what a request is answered with.
type answers struct{ got []*backend.Response }

func (a *answers) Respond(r *backend.Response, _ bool) error { a.got = append(a.got, r); return nil }
func (a *answers) Cancelled() bool                           { return false }

func open(t *testing.T) backend.Backend {
	t.Helper()
	h := &server{memory: memory.New(memory.Options{})}
	b, err := driver(t).Open(t.Context(), h, backend.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(); h.memory.Close() })
	return b
}

func ask(in backend.Instance, value uint32) (string, error) {
	a := &answers{}
	data := binary.LittleEndian.AppendUint32(nil, value)
	inputs := []tensor.Tensor{{Name: "IN", Datatype: tensor.Int32, Shape: tensor.Shape{1, 1}, Data: data}}
	r := &backend.Request{BatchSize: 1, Inputs: inputs, Requested: []string{"OUT"}, Responder: a, Ctx: context.Background()}
	if err := in.Execute(context.Background(), &backend.Batch{Requests: []*backend.Request{r}, Inputs: inputs, Size: 1}); err != nil {
		return "", err
	}
	defer a.got[0].Release()
	if a.got[0].Err != nil {
		return "", a.got[0].Err
	}
	return string(a.got[0].Outputs[0].Data), nil
}

// TestTheServerLives: a library that aborts ends a worker; its request fails
// with the cause, and the next worker serves.
func TestTheServerLives(t *testing.T) {
	b := open(t)
	m, err := b.Load(t.Context(), config(tensor.Int32, 8, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, err := m.NewInstance(t.Context(), backend.InstanceConfig{Name: "model_0_0", Kind: "KIND_CPU"})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if got, err := ask(in, 7); got != "\x07\x00\x00\x00" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	_, err = ask(in, 0xEE)
	if err == nil || !strings.Contains(err.Error(), aborted) {
		t.Errorf("got %v", err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		got, err := ask(in, 8) // waits for the next worker
		if got == "\x08\x00\x00\x00" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no worker follows: %v", err)
		}
	}
	if err := m.Ready(); err != nil {
		t.Error(err)
	}
}

func TestCompleteAndErrors(t *testing.T) {
	b := open(t)
	cfg := config(tensor.Int32, 8, 1)
	got, err := b.Complete(t.Context(), cfg)
	if string(got) != `{"name":"model"}` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	m, err := b.Load(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	in, err := m.NewInstance(t.Context(), cfg.Instances[0]) // in the worker that has completed it
	if err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), m.Close()
	cfg.Filename = "bad"
	if _, err := b.Complete(t.Context(), cfg); err == nil ||
		*backend.AsError(err) != (backend.Error{Code: backend.Unsupported, Message: "this file is bad"}) {
		t.Errorf("got %v", err)
	}
	cfg.Parameters = map[string]string{Param: "thread"}
	if _, err := b.Load(t.Context(), cfg); err == nil || err.Error() != "parameter 'isolation' of model 'model' is 'thread', expected "+
		"process or none" {
		t.Errorf("got %v", err)
	}
}
