package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	_, err := e.Resolve("b", -1, 0)
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
	_, err = e.Resolve("b", -1, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'b' has no available versions")
	_, err = e.Resolve("b", 1, 0)
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
		"failed to load 'nope', failed to poll from model repository: model 'nope' is not in any model repository")
	err = e.Load(t.Context(), "broken", "", nil)
	if got := backend.AsError(err); got.Code != backend.Internal || !strings.HasPrefix(got.Message, "failed to load 'broken', failed to poll from model repository: ") || !strings.Contains(got.Message, "repository: broken/config.pbtxt:1") {
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

// TestLoadSaysAllFaults: what cannot be read does not hide what else is wrong.
func TestLoadSaysAllFaults(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": "max_batch_size: -1\nbackend: echo\ninput { name: \"A\" data_type: TYPE_FP23 dims: [ 4 ] }\n" +
			"dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 3 }\nmax_batch_sizes: 3\n",
		"a/1/": "",
	})
	e := server(t, explicit(top), &nesotest.Echo{Name: "echo"})
	err := e.Load(t.Context(), "a", "", nil)
	if err == nil {
		t.Fatal("no error")
	}
	rest := err.Error()
	for _, want := range []string{
		"(a/config.pbtxt:1, field max_batch_size", "a/config.pbtxt:2:10, field backend", "a/config.pbtxt:3:30, field input[0].data_type",
		"(a/config.pbtxt:4, field dynamic_batching.priority_levels", "a/config.pbtxt:5:1, field max_batch_sizes",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("no %q, or not in order, in\n%v", want, err)
		}
		rest = after
	}
	err = e.Load(t.Context(), "a", `{"backend":"echo","max_batch_size":-1,"input":[{"name":"A","data_type":"TYPE_FP23","dims":[4]}]}`, nil)
	for _, want := range []string{"field input[0].data_type", "field max_batch_size"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("no %q in %v", want, err)
		}
	}
}

func TestStartAll(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	e := server(t, explicit(top, "*"), &nesotest.Echo{Name: "echo"})
	wantIndex(t, e, "a 1 READY\nb 1 READY\n")
	_, err := starting(t, explicit(top, "a", "nope"), &nesotest.Echo{Name: "echo"})
	wantError(t, err, backend.Internal, "failed to load all models\n  nope: failed to load 'nope', failed to poll from model repository: model 'nope' is not in any model repository")
}

func TestOverrides(t *testing.T) {
	var seen atomic.Pointer[backend.Config]
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(_ context.Context, cfg backend.Config) error {
		seen.Store(&cfg)
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "a/2/": ""})
	e := server(t, explicit(top, "a"), echo)
	mustLoad(t, e, "a", strings.Replace(echoJSON, `{`, `{"version_policy":{"specific":{"versions":[1]}},`, 1), nil)
	wantServed(t, e, "a", -1, 1)
	settle(t, e)
	wantIndex(t, e, "a 1 READY\na 2 UNAVAILABLE unloaded\n")

	mustLoad(t, e, "a", echoJSON, map[string][]byte{"file:7/x/weights": []byte("w")})
	wantServed(t, e, "a", -1, 7)
	dir := seen.Load().VersionDirectory
	if text, err := os.ReadFile(filepath.Join(dir, "x", "weights")); err != nil || string(text) != "w" || filepath.Base(filepath.Dir(dir)) != "a" {
		t.Error(dir, text, err)
	}
	settle(t, e)
	wantIndex(t, e, "a 1 UNAVAILABLE unloaded\na 2 UNAVAILABLE unloaded\na 7 READY\n")

	// Back to what the repository holds; the files go with the version.
	mustLoad(t, e, "a", "", nil)
	wantServed(t, e, "a", -1, 2)
	settle(t, e)
	if _, err := os.Stat(dir); err == nil {
		t.Error("files of the override were left behind")
	}

	mustLoad(t, e, "fresh", echoJSON, map[string][]byte{"1/x": nil})
	wantServed(t, e, "fresh", -1, 1)
	for name, tc := range map[string]struct {
		config string
		files  map[string][]byte
		reason string
	}{
		"files without config": {"", map[string][]byte{"1/x": nil}, "override files of model 'bad' need the parameter 'config' too"},
		"path trick":           {echoJSON, map[string][]byte{"../x": nil}, "invalid file name '../x', it must be a path relative to the model's directory"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, e.Load(t.Context(), "bad", tc.config, tc.files), backend.Internal, "failed to load 'bad', failed to poll from model repository: "+tc.reason)
		})
	}
	if err := e.Load(t.Context(), "a", `{"nonsense":1}`, nil); err == nil || !strings.HasPrefix(err.Error(), "failed to load 'a', failed to poll from model repository: ") {
		t.Error(err)
	}
	wantServed(t, e, "a", -1, 2)
}

func TestReloadOnlyWhatChanged(t *testing.T) {
	var mu sync.Mutex
	var loaded []int64
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(_ context.Context, cfg backend.Config) error {
		mu.Lock()
		defer mu.Unlock()
		loaded = append(loaded, cfg.Version)
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig + "version_policy: { latest { num_versions: 2 } }", "a/1/w": "1", "a/2/w": "2"})
	e := server(t, explicit(top, "a"), echo)
	loaded = nil
	nesotest.Put(t, top, "a/3/w", "3")
	mustLoad(t, e, "a", "", nil)
	if len(loaded) != 1 || loaded[0] != 3 {
		t.Error("loaded", loaded)
	}
	settle(t, e)
	wantIndex(t, e, "a 1 UNAVAILABLE unloaded\na 2 READY\na 3 READY\n")
	loaded = nil
	nesotest.Put(t, top, "a/2/w", "changed")
	mustLoad(t, e, "a", "", nil)
	if len(loaded) != 1 || loaded[0] != 2 {
		t.Error("loaded", loaded)
	}
	loaded = nil
	nesotest.Put(t, top, "a/config.pbtxt", echoConfig+"version_policy: { latest { num_versions: 2 } } max_batch_size: 0 # other")
	mustLoad(t, e, "a", "", nil)
	if len(loaded) != 2 {
		t.Error("loaded", loaded)
	}
}

// TestReloadUnderLoad is the promise of a reload: no request fails, and none is
// served by the old version once the reload has been answered.
func TestReloadUnderLoad(t *testing.T) {
	echo := &nesotest.Echo{Name: "echo", OnExecute: func(context.Context, backend.Config, *backend.Batch) (bool, error) {
		time.Sleep(100 * time.Microsecond) // so that reloads meet requests in flight
		return false, nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	e := server(t, explicit(top, "a"), echo)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var served atomic.Int64
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := ask(e, "a", -1); err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
			}
		})
	}
	for range 30 {
		before := served.Load()
		mustLoad(t, e, "a", echoJSON, nil)
		for served.Load() < before+8 && ctx.Err() == nil && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	stop()
	wg.Wait()
	if n := echo.Loads.Load(); n != 31 {
		t.Errorf("%d loads, want 31", n)
	}
}

func TestFailedReloadKeepsTheOld(t *testing.T) {
	var fail atomic.Bool
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(_ context.Context, cfg backend.Config) error {
		if fail.Load() && cfg.Version == 2 {
			return backend.Errorf(backend.Unavailable, "no memory")
		}
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig + "version_policy: { all {} }", "a/1/": "", "a/2/": ""})
	e := server(t, explicit(top, "a"), echo)
	fail.Store(true)
	config := strings.Replace(echoJSON, `{`, `{"version_policy":{"all":{}},`, 1)
	wantError(t, e.Load(t.Context(), "a", config, nil), backend.InvalidArg,
		"load failed for model 'a': version 2 is at UNAVAILABLE state: Unavailable: no memory;\n")
	wantServed(t, e, "a", 1, 1)
	wantServed(t, e, "a", 2, 2)
	wantIndex(t, e, "a 1 READY\na 2 READY\n")
	if err := e.Ready(); err != nil {
		t.Error(err)
	}
	if n := echo.Models.Load(); n != 2 {
		t.Errorf("%d models alive, want 2", n)
	}
	// A first load with a failing version serves none of them.
	mustUnload(t, e, "a")
	if err := e.Load(t.Context(), "a", config, nil); err == nil {
		t.Error("no error")
	}
	wantIndex(t, e, "a 1 UNAVAILABLE another version of the model failed to load\na 2 UNAVAILABLE Unavailable: no memory\n")
	if e.Ready() == nil {
		t.Error("ready")
	}
	fail.Store(false)
	mustLoad(t, e, "a", config, nil)
	wantServed(t, e, "a", -1, 2)
}

func mustUnload(t *testing.T, e *Engine, name string) {
	t.Helper()
	if err := e.Unload(t.Context(), name, false); err != nil {
		t.Fatal(err)
	}
	settle(t, e)
}

func TestRetries(t *testing.T) {
	var attempts atomic.Int64
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(context.Context, backend.Config) error {
		if attempts.Add(1) < 3 {
			return backend.Errorf(backend.Internal, "not yet")
		}
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	o := explicit(top, "a")
	o.LoadRetries = 2
	e := server(t, o, echo)
	wantServed(t, e, "a", -1, 1)
}

func TestBackendOpensAgainAfterAFailure(t *testing.T) {
	missing := true
	echo := &nesotest.Echo{Name: "echo", OnOpen: func(_ backend.Host, s backend.Settings) error {
		if s.Values["k"] != "own" || s.Values["g"] != "global" || s.Directory != "dir" {
			t.Errorf("settings %+v", s)
		}
		if missing {
			return backend.Errorf(backend.Unavailable, "libecho.so is missing")
		}
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	o := explicit(top)
	o.BackendDir = "dir"
	o.BackendSettings = map[string]map[string]string{"": {"k": "global", "g": "global"}, "echo": {"k": "own"}}
	e := server(t, o, echo)
	wantError(t, e.Load(t.Context(), "a", "", nil), backend.InvalidArg,
		"load failed for model 'a': version 1 is at UNAVAILABLE state: Unavailable: libecho.so is missing;\n")
	missing = false
	mustLoad(t, e, "a", "", nil)
	if n := echo.Opened.Load(); n != 2 {
		t.Errorf("opened %d times", n)
	}
}

func TestUnloadWithRequestsInFlight(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	echo := &nesotest.Echo{Name: "echo", OnExecute: func(context.Context, backend.Config, *backend.Batch) (bool, error) {
		entered <- struct{}{}
		<-release
		return false, nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	e := server(t, explicit(top, "a"), echo)
	answer := make(chan error, 1)
	go func() {
		_, err := ask(e, "a", -1)
		answer <- err
	}()
	<-entered
	if err := e.Unload(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	wantIndex(t, e, "a 1 UNLOADING\n")
	_, err := e.Resolve("a", -1, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'a' has no available versions")
	// It can come back before its former self is gone.
	mustLoad(t, e, "a", "", nil)
	wantIndex(t, e, "a 1 READY\n")
	close(release)
	if err := <-answer; err != nil {
		t.Error("the request in flight failed:", err)
	}
	wantServed(t, e, "a", -1, 1)
	wantIndex(t, e, "a 1 READY\n")
}

func TestConcurrentLoads(t *testing.T) {
	entered, release := make(chan struct{}, 8), make(chan struct{})
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(context.Context, backend.Config) error {
		entered <- struct{}{}
		<-release
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	e := server(t, explicit(top), echo)
	done := make(chan error, 2)
	go func() { done <- e.Load(t.Context(), "a", "", nil) }()
	<-entered
	wantIndex(t, e, "a 1 LOADING\nb\n")
	if e.Ready() == nil {
		t.Error("ready while a model loads")
	}
	busy := "a related model 'a' to a load/unload request is currently loading or unloading"
	wantError(t, e.Load(t.Context(), "a", "", nil), backend.Internal, busy)
	wantError(t, e.Unload(t.Context(), "a", false), backend.Internal, busy)
	go func() { done <- e.Load(t.Context(), "b", "", nil) }() // another model at the same time
	<-entered
	// A caller that leaves does not end the load.
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := e.Load(gone, "a", "", nil); err == nil {
		t.Error("no error")
	}
	close(release)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	wantServed(t, e, "a", -1, 1)
	wantServed(t, e, "b", -1, 1)
}

func TestLoadThreadsBoundParallelLoads(t *testing.T) {
	var now, most atomic.Int64
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(context.Context, backend.Config) error {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(2 * time.Millisecond) // long enough for others to come in, were they let
		return nil
	}}
	files := map[string]string{}
	for n := range strings.SplitSeq("abcdefghij", "") {
		files[n+"/config.pbtxt"], files[n+"/1/"] = echoConfig, ""
	}
	o := explicit(nesotest.Tree(t, files), "*")
	o.LoadThreads = 3
	server(t, o, echo)
	if n := most.Load(); n > 3 {
		t.Errorf("%d loads at once, want at most 3", n)
	}
}

func TestEnsembles(t *testing.T) {
	step := func(models ...string) string {
		text := "platform: \"ensemble\"\ninput [ { name: \"X\" data_type: TYPE_FP32 dims: [ -1 ] } ]\noutput [ { name: \"Y\" data_type: TYPE_FP32 dims: [ -1 ] } ]\nensemble_scheduling { step [\n"
		from := "X"
		for i, m := range models {
			to := "t" + m
			if i == len(models)-1 {
				to = "Y"
			}
			if i > 0 {
				text += ",\n"
			}
			text += `{ model_name: "` + m + `" model_version: -1 input_map { key: "IN" value: "` + from + `" } output_map { key: "OUT" value: "` + to + `" } }`
			from = to
		}
		return text + "\n] }\n"
	}
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "",
		"e/config.pbtxt": step("a", "b"), "e/1/": "",
		"lacks/config.pbtxt": step("a", "nope"), "lacks/1/": "",
		"c1/config.pbtxt": step("c2"), "c1/1/": "", "c2/config.pbtxt": step("c1"), "c2/1/": "",
	})
	e := server(t, explicit(top), &nesotest.Echo{Name: "echo"})
	mustLoad(t, e, "e", "", nil)
	wantServed(t, e, "a", -1, 1) // its parts were loaded first
	wantServed(t, e, "b", -1, 1)
	wantError(t, e.Load(t.Context(), "lacks", "", nil), backend.InvalidArg,
		"load failed for model 'lacks': ensemble lacks contains models that are not available or ambiguous: nope\n")
	err := e.Load(t.Context(), "c1", "", nil)
	if err == nil || !strings.Contains(err.Error(), "circular dependency between ensembles: c1 -> c2 -> c1") {
		t.Error(err)
	}

	o := explicit(top, "e", "c1")
	o.ExitOnError = false
	s := server(t, o, &nesotest.Echo{Name: "echo"})
	got := index(t, s)
	for _, text := range []string{"\nb 1 READY\n", "\ne 1 READY\n", "c1  UNAVAILABLE circular dependency between ensembles: c1 -> c2 -> c1; in ensemble c1, ensemble tensor X is mapping to non-existing input IN in model c2"} {
		if !strings.Contains(got, text) {
			t.Errorf("no %q in\n%s", text, got)
		}
	}
}
