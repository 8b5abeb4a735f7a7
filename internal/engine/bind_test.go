package engine

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

const boundJSON = `{"backend":"python","max_batch_size":4,"dynamic_batching":{},"input":[{"name":"IN","data_type":"TYPE_FP32","dims":[-1]}],"output":[{"name":"OUT","data_type":"TYPE_FP32","dims":[-1]}]}`

// program makes backends to bind. It is made before the server, so that its
// end comes after the server's.
func program(t *testing.T) (bind func(*nesotest.Echo) backend.Backend) {
	t.Helper()
	type bound struct {
		echo    *nesotest.Echo
		backend backend.Backend
	}
	var all []bound
	t.Cleanup(func() {
		for _, b := range all {
			_ = b.backend.Close()
		}
		for _, b := range all {
			if n := b.echo.Alive(); n != 0 {
				t.Errorf("%d backends, models or instances left open", n)
			}
		}
	})
	return func(e *nesotest.Echo) backend.Backend {
		b, err := e.Driver().Open(t.Context(), nil, backend.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bound{e, b})
		return b
	}
}

func TestBind(t *testing.T) {
	for _, mode := range []string{"none", "explicit"} {
		echoing := program(t)
		b := echoing(&nesotest.Echo{})
		e := server(t, Options{NoRepository: true, ControlMode: mode})
		config, err := e.Bind(t.Context(), "m", 1, []byte(boundJSON), b)
		if err != nil || !strings.Contains(string(config), `"name":"m"`) && !strings.Contains(string(config), `"name": "m"`) {
			t.Fatalf("%s: %v", config, err)
		}
		if err := e.ModelReady("m", -1); err != nil {
			t.Error(err)
		}
		if index, _ := e.Index(true); len(index) != 1 || index[0].Name != "m" || index[0].Version != "1" {
			t.Errorf("index %+v", index)
		}
		if err := e.Unbind(t.Context(), "m", 1, b); err != nil {
			t.Error(err)
		}
		if err := e.ModelReady("m", -1); err == nil {
			t.Error("ready after Unbind")
		}
		if index, _ := e.Index(false); len(index) != 0 {
			t.Errorf("index after Unbind %+v", index)
		}
	}
}

func TestBindRefusals(t *testing.T) {
	echoing := program(t)
	b := echoing(&nesotest.Echo{OnLoad: func(_ context.Context, cfg backend.Config) error {
		if cfg.Name == "broken" {
			return backend.Errorf(backend.Internal, "no luck")
		}
		return nil
	}})
	tree := nesotest.Tree(t, map[string]string{"stored/config.pbtxt": echoConfig, "stored/1/x": ""})
	e := server(t, Options{Repositories: []string{tree}, ControlMode: "explicit", StartupModels: []string{"stored"}}, &nesotest.Echo{Name: "echo"})
	for _, c := range []struct {
		name, config, want string
		version            int64
	}{
		{"", boundJSON, "cannot be empty", 1},
		{"../x", boundJSON, "path traversal", 1},
		{"m", boundJSON, "not a positive number", 0},
		{"m", `{"backend":`, "", 1},
		{"m", `{"name":"other","backend":"x","max_batch_size":0}`, "must equal", 1},
		{"m", `{"backend":"x","max_batch_size":-1}`, "max_batch_size", 1},
		{"broken", boundJSON, "no luck", 1},
		{"stored", boundJSON, "loaded from a model repository", 1},
	} {
		if _, err := e.Bind(t.Context(), c.name, c.version, []byte(c.config), b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %s: %v, want %q", c.name, c.config, err, c.want)
		}
	}
	if err := e.Ready(); err != nil {
		t.Errorf("refused bindings make the server not ready: %v", err)
	}
	if index, _ := e.Index(false); len(index) != 1 {
		t.Errorf("index %+v", index)
	}
	if err := e.Unbind(t.Context(), "never", 1, nil); err != nil {
		t.Error(err)
	}
}

// TestBindAgain swaps a version under load, and keeps it when the next one does
// not load.
func TestBindAgain(t *testing.T) {
	echoing, old := program(t), &nesotest.Echo{}
	failing := &nesotest.Echo{OnLoad: func(context.Context, backend.Config) error { return backend.Errorf(backend.Internal, "no") }}
	e := server(t, Options{NoRepository: true})
	first := echoing(old)
	if _, err := e.Bind(t.Context(), "m", 1, []byte(boundJSON), first); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := askBound(e); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		if _, err := e.Bind(t.Context(), "m", 1, []byte(boundJSON), echoing(&nesotest.Echo{})); err != nil {
			t.Error(err)
		}
		if _, err := e.Bind(t.Context(), "m", 1, []byte(boundJSON), echoing(failing)); err == nil {
			t.Error("a version that does not load was bound")
		}
	}
	stop()
	wg.Wait()
	// The first binder is not the owner any more.
	if err := e.Unbind(t.Context(), "m", 1, first); err != nil {
		t.Error(err)
	}
	if err := askBound(e); err != nil {
		t.Error(err)
	}
}

func TestBoundVersions(t *testing.T) {
	echoing := program(t)
	e := server(t, Options{NoRepository: true, ControlMode: "explicit"})
	for v := range int64(3) {
		if _, err := e.Bind(t.Context(), "m", v+1, []byte(boundJSON), echoing(&nesotest.Echo{})); err != nil {
			t.Fatal(err)
		}
	}
	versions := func() int {
		_, all, err := e.Model("m", -1)
		if err != nil {
			t.Error(err)
		}
		return len(all)
	}
	if versions() != 3 {
		t.Errorf("%d versions", versions())
	}
	if err := e.Unbind(t.Context(), "m", 2, nil); err != nil || versions() != 2 {
		t.Errorf("%d versions after Unbind: %v", versions(), err)
	}
	// The API unloads and loads them like any model.
	if err := e.Unload(t.Context(), "m", false); err != nil {
		t.Error(err)
	}
	if err := askBound(e); err == nil {
		t.Error("answers after unload")
	}
	if err := e.Load(t.Context(), "m", "", map[string][]byte{"1/x": nil}); err == nil {
		t.Error("files replaced a program")
	}
	if err := e.Load(t.Context(), "m", strings.Replace(boundJSON, `"max_batch_size":4`, `"max_batch_size":2`, 1), nil); err != nil {
		t.Fatal(err)
	}
	if c, _, _ := e.Model("m", 3); c.MaxBatchSize != 2 {
		t.Errorf("max_batch_size %d", c.MaxBatchSize)
	}
}

// askBound sends one request to the bound model and waits for its answer.
func askBound(e *Engine) error {
	done := make(chan error, 1)
	err := e.Host().Infer(&backend.Request{
		ModelName: "m", ModelVersion: -1, BatchSize: 1, Ctx: context.Background(), Responder: asked(done),
		Inputs: []tensor.Tensor{{Name: "IN", Datatype: tensor.FP32, Shape: tensor.Shape{1, 1}, Data: make([]byte, 4)}},
	})
	if err != nil {
		return err
	}
	return <-done
}

type asked chan error

func (a asked) Respond(resp *backend.Response, final bool) error {
	var err error
	if resp != nil && resp.Err != nil {
		err = resp.Err
	}
	resp.Release()
	if final {
		a <- err
	}
	return nil
}

func (a asked) Cancelled() bool { return false }
