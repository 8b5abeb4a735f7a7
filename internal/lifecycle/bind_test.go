package lifecycle

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestBindRefusals(t *testing.T) {
	echoing := nesotest.Program(t)
	b := echoing(&nesotest.Echo{OnLoad: func(_ context.Context, cfg backend.Config) error {
		if cfg.Name == "broken" {
			return backend.Errorf(backend.Internal, "no luck")
		}
		return nil
	}})
	tree := nesotest.Tree(t, map[string]string{"stored/config.pbtxt": echoConfig, "stored/1/x": ""})
	m := start(t, of(tree, "stored"), &nesotest.Echo{Name: "echo"})
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
		if err := m.Bind(t.Context(), Bound{Name: c.name, Version: c.version, Config: []byte(c.config), Backend: b}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %s: %v, want %q", c.name, c.config, err, c.want)
		}
	}
	if err := m.AllReady(); err != nil {
		t.Errorf("refused bindings make the server not ready: %v", err)
	}
	if all := m.Versions(""); len(all) != 1 {
		t.Errorf("index %+v", all)
	}
	if err := m.Unbind(t.Context(), "never", 1, nil); err != nil {
		t.Error(err)
	}
}

// TestBindAgain swaps a version under load, and keeps it when the next one does
// not load.
func TestBindAgain(t *testing.T) {
	echoing, old := nesotest.Program(t), &nesotest.Echo{}
	failing := &nesotest.Echo{OnLoad: func(context.Context, backend.Config) error { return backend.Errorf(backend.Internal, "no") }}
	m := start(t, setup{})
	first := echoing(old)
	if err := m.Bind(t.Context(), Bound{Name: "m", Version: 1, Config: []byte(boundJSON), Backend: first}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := askBound(m); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		if err := m.Bind(t.Context(), Bound{Name: "m", Version: 1, Config: []byte(boundJSON), Backend: echoing(&nesotest.Echo{})}); err != nil {
			t.Error(err)
		}
		if err := m.Bind(t.Context(), Bound{Name: "m", Version: 1, Config: []byte(boundJSON), Backend: echoing(failing)}); err == nil {
			t.Error("a version that does not load was bound")
		}
	}
	stop()
	wg.Wait()
	// The first binder is not the owner any more.
	if err := m.Unbind(t.Context(), "m", 1, first); err != nil {
		t.Error(err)
	}
	if err := askBound(m); err != nil {
		t.Error(err)
	}
}

func TestBoundVersions(t *testing.T) {
	echoing := nesotest.Program(t)
	m := start(t, setup{})
	for v := range int64(3) {
		if err := m.Bind(t.Context(), Bound{
			Name: "m", Version: v + 1, Config: []byte(boundJSON),
			Backend: echoing(&nesotest.Echo{}),
		}); err != nil {
			t.Fatal(err)
		}
	}
	versions := func() int { return len(m.Lookup("m")) }
	if versions() != 3 {
		t.Errorf("%d versions", versions())
	}
	if err := m.Unbind(t.Context(), "m", 2, nil); err != nil || versions() != 2 {
		t.Errorf("%d versions after Unbind: %v", versions(), err)
	}
	// The API unloads and loads them like any model.
	if err := m.Unload("m", false); err != nil {
		t.Error(err)
	}
	if err := askBound(m); err == nil {
		t.Error("answers after unload")
	}
	if err := m.Load(t.Context(), Request{Name: "m", Files: map[string][]byte{"1/x": nil}}); err == nil {
		t.Error("files replaced a program")
	}
	if err := m.Load(t.Context(), Request{Name: "m", Config: strings.Replace(boundJSON, `"max_batch_size":4`, `"max_batch_size":2`,
		1)}); err != nil {
		t.Fatal(err)
	}
	if c := m.Lookup("m")[1].Config(); c.MaxBatchSize != 2 {
		t.Errorf("max_batch_size %d", c.MaxBatchSize)
	}
}

// askBound sends one request to the bound model and waits for its answer.
func askBound(m *Manager) error {
	_, err := ask(m, "m", -1, 1, 2)
	return err
}

// TestEnsembleOfABoundModel comes with the model that a program binds, goes when that
// has other tensors or is unbound, and comes back.
func TestEnsembleOfABoundModel(t *testing.T) {
	echoing := nesotest.Program(t)
	b := echoing(&nesotest.Echo{})
	o := of(nesotest.Tree(t, map[string]string{"e/config.pbtxt": ensembleConfig("a"), "e/1/": ""}), "e")
	o.faulty = true
	m := start(t, o, &nesotest.Echo{Name: "echo"})
	unbatched := strings.Replace(boundJSON, `"max_batch_size":4,"dynamic_batching":{}`, `"max_batch_size":0`, 1)
	bind := func(config string) {
		t.Helper()
		if err := m.Bind(t.Context(), Bound{Name: "a", Version: 1, Config: []byte(config), Backend: b}); err != nil {
			t.Fatal(err)
		}
	}
	bind(unbatched)
	wantServed(t, m, "e", -1, 1)
	bind(strings.ReplaceAll(unbatched, "TYPE_FP32", "TYPE_INT32"))
	if pinned(m, "e", -1) == nil {
		t.Error("it serves with a model that it does not fit")
	}
	bind(unbatched)
	wantServed(t, m, "e", -1, 1)
	if err := m.Unbind(t.Context(), "a", 1, b); err != nil {
		t.Fatal(err)
	}
	if pinned(m, "e", -1) == nil {
		t.Error("it serves without its model")
	}
	bind(unbatched)
	wantServed(t, m, "e", -1, 1)
}
