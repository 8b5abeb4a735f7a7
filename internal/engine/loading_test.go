package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

func explicit(top string, startup ...string) Options {
	return Options{Repositories: []string{top}, ControlMode: "explicit", StartupModels: startup, StrictReadiness: true, ExitOnError: true}
}

func mustLoad(t *testing.T, e *Engine, name, config string, files map[string][]byte) {
	t.Helper()
	if err := e.Load(t.Context(), name, config, files); err != nil {
		t.Fatal(err)
	}
}

func TestExplicitControl(t *testing.T) {
	echo := &nesotest.Echo{Name: "echo"}
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "", "broken/config.pbtxt": "broken {", "broken/1/": "",
		"noversion/config.pbtxt": echoConfig,
	})
	e := server(t, explicit(top, "a"), echo)
	wantIndex(t, e, "a 1 READY\nb\nbroken\nnoversion\n")
	_, err := e.Resolve(t.Context(), "b", -1, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'b' is not found")
	mustLoad(t, e, "b", "", nil)
	wantServed(t, e, "b", -1, 1)

	loads := echo.Loads.Load()
	mustLoad(t, e, "b", "", nil)
	if n := echo.Loads.Load(); n != loads {
		t.Error("an unchanged model was loaded again")
	}

	if err := e.Unload(t.Context(), "b", false); err != nil {
		t.Fatal(err)
	}
	settle(t, e)
	wantIndex(t, e, "a 1 READY\nb 1 UNAVAILABLE unloaded\nbroken\nnoversion\n")
	_, err = e.Resolve(t.Context(), "b", -1, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'b' has no available versions")
	_, err = e.Resolve(t.Context(), "b", 1, 0)
	wantError(t, err, backend.Unavailable, "Request for unknown model: 'b' version 1 is not at ready state")
	if err := e.Ready(); err != nil {
		t.Error("an unloaded model counts against readiness:", err)
	}
	if err := e.Unload(t.Context(), "nope", true); err != nil {
		t.Error("unloading an unknown model:", err)
	}
	ready, err := e.Index(true)
	if err != nil || len(ready) != 1 || ready[0] != (IndexEntry{Name: "a", Version: "1", State: "READY"}) {
		t.Error(ready, err)
	}

	for _, name := range []string{"..", "a/b", ""} {
		if err := e.Load(t.Context(), name, "", nil); backend.AsError(err) == nil || backend.AsError(err).Code != backend.InvalidArg {
			t.Errorf("load %q: %v", name, err)
		}
	}
	wantError(t, e.Load(t.Context(), "nope", "", nil), backend.Internal,
		"failed to load 'nope', failed to poll from model repository: failed to poll model 'nope': model not found in any model repository")
	err = e.Load(t.Context(), "broken", "", nil)
	if got := backend.AsError(err); got.Code != backend.Internal ||
		!strings.HasPrefix(got.Message, "failed to load 'broken', failed to poll from model repository: ") ||
		!strings.Contains(got.Message, "repository: broken/config.pbtxt:1") {
		t.Error(got)
	}
	wantError(t, e.Load(t.Context(), "noversion", "", nil), backend.InvalidArg,
		"load failed for model 'noversion': at least one version must be available under the version policy of model 'noversion' "+
			"(noversion/config.pbtxt, field version_policy: expected a version directory such as \"noversion/1\", found 0 versions)\n")
	if e.Ready() == nil {
		t.Error("ready with a model that has no version")
	}
	if err := e.Unload(t.Context(), "noversion", false); err != nil {
		t.Error(err)
	}
	if err := e.Ready(); err != nil {
		t.Error(err)
	}
}

// TestIndexForgets what no repository has any more, unless it serves all the same.
func TestIndexForgets(t *testing.T) {
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(_ context.Context, cfg backend.Config) error {
		if cfg.Name == "broken" {
			return backend.Errorf(backend.Internal, "no luck")
		}
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "", "broken/config.pbtxt": echoConfig, "broken/1/": "",
	})
	e := server(t, explicit(top, "a", "b"), echo)
	if e.Load(t.Context(), "broken", "", nil) == nil {
		t.Error("no error")
	}
	for _, name := range []string{"a", "b", "broken"} {
		if err := os.RemoveAll(filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Unload(t.Context(), "b", false); err != nil {
		t.Fatal(err)
	}
	settle(t, e)
	wantIndex(t, e, "a 1 READY\n")
	wantServed(t, e, "a", -1, 1)
	_, err := e.Resolve(t.Context(), "b", -1, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'b' has no available versions")
	nesotest.Put(t, top, "b/1/", "")
	wantIndex(t, e, "a 1 READY\nb 1 UNAVAILABLE unloaded\n")
	mustLoad(t, e, "c", echoJSON, map[string][]byte{"file:7/x": []byte("w")})
	wantIndex(t, e, "a 1 READY\nb 1 UNAVAILABLE unloaded\nc 7 READY\n")
}

func TestStartAll(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	e := server(t, explicit(top, "*"), &nesotest.Echo{Name: "echo"})
	wantIndex(t, e, "a 1 READY\nb 1 READY\n")
	_, err := starting(t, explicit(top, "a", "nope"), &nesotest.Echo{Name: "echo"})
	wantError(t, err, backend.Internal,
		"failed to load all models\n  nope: failed to load 'nope', failed to poll from model repository: failed to poll model 'nope': model "+
			"not found in any model repository")
}

// TestFilesOfALoad: the files of a load request come under their names on the wire
// or without what these begin with.
func TestFilesOfALoad(t *testing.T) {
	e := server(t, explicit(nesotest.Tree(t, nil)), &nesotest.Echo{Name: "echo"})
	mustLoad(t, e, "a", echoJSON, map[string][]byte{"file:7/x/weights": []byte("w")})
	wantServed(t, e, "a", -1, 7)
	mustLoad(t, e, "a", echoJSON, map[string][]byte{"8/x/weights": []byte("w")})
	wantServed(t, e, "a", -1, 8)
}

// TestBackendSettings: what is said of a backend comes before what is said of all.
func TestBackendSettings(t *testing.T) {
	echo := &nesotest.Echo{Name: "echo", OnOpen: func(_ backend.Host, s backend.Settings) error {
		if s.Values["k"] != "own" || s.Values["g"] != "global" || s.Directory != "dir" {
			t.Errorf("settings %+v", s)
		}
		return nil
	}}
	o := explicit(nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""}), "a")
	o.BackendDir = "dir"
	o.BackendSettings = map[string]map[string]string{"": {"k": "global", "g": "global"}, "echo": {"k": "own"}}
	server(t, o, echo)
	if n := echo.Opened.Load(); n != 1 {
		t.Errorf("opened %d times", n)
	}
}
