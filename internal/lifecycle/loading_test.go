package lifecycle

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/nesotest"
)

// TestLoadSaysAllFaults: what cannot be read does not hide what else is wrong.
func TestLoadSaysAllFaults(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": "max_batch_size: -1\nbackend: echo\ninput { name: \"A\" data_type: TYPE_FP23 dims: [ 4 ] }\n" +
			"dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 3 }\nmax_batch_sizes: 3\n",
		"a/1/": "",
	})
	m := start(t, of(top), &nesotest.Echo{Name: "echo"})
	err := m.Load(t.Context(), Request{Name: "a"})
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
	err = m.Load(t.Context(), Request{
		Name:   "a",
		Config: `{"backend":"echo","max_batch_size":-1,"input":[{"name":"A","data_type":"TYPE_FP23","dims":[4]}]}`,
	})
	for _, want := range []string{"field input[0].data_type", "field max_batch_size"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("no %q in %v", want, err)
		}
	}
}

func TestOverrides(t *testing.T) {
	var seen atomic.Pointer[backend.Config]
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(_ context.Context, cfg backend.Config) error {
		seen.Store(&cfg)
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "a/2/": ""})
	m := start(t, of(top, "a"), echo)
	mustLoad(t, m, Request{Name: "a", Config: strings.Replace(echoJSON, `{`, `{"version_policy":{"specific":{"versions":[1]}},`, 1)})
	wantServed(t, m, "a", -1, 1)
	settle(t, m)
	wantIndex(t, m, "a 1 READY\na 2 UNAVAILABLE unloaded\n")

	mustLoad(t, m, Request{Name: "a", Config: echoJSON, Files: map[string][]byte{"7/x/weights": []byte("w")}})
	wantServed(t, m, "a", -1, 7)
	dir := seen.Load().VersionDirectory
	if text, err := os.ReadFile(filepath.Join(dir, "x", "weights")); err != nil || string(text) != "w" ||
		filepath.Base(filepath.Dir(dir)) != "a" {
		t.Error(dir, text, err)
	}
	settle(t, m)
	wantIndex(t, m, "a 1 UNAVAILABLE unloaded\na 2 UNAVAILABLE unloaded\na 7 READY\n")

	// Back to what the repository holds; the files go with the version.
	mustLoad(t, m, Request{Name: "a"})
	wantServed(t, m, "a", -1, 2)
	settle(t, m)
	if _, err := os.Stat(dir); err == nil {
		t.Error("files of the override were left behind")
	}

	mustLoad(t, m, Request{Name: "fresh", Config: echoJSON, Files: map[string][]byte{"1/x": nil}})
	wantServed(t, m, "fresh", -1, 1)
	for name, tc := range map[string]struct {
		config string
		files  map[string][]byte
		reason string
	}{
		"files without config": {"", map[string][]byte{"1/x": nil}, "override files of model 'bad' need the parameter 'config' too"},
		"path trick": {
			echoJSON,
			map[string][]byte{"../x": nil},
			"invalid file name '../x', it must be a path relative to the model's directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, m.Load(t.Context(), Request{Name: "bad", Config: tc.config, Files: tc.files}), backend.Internal,
				"failed to load 'bad', failed to poll from model repository: "+tc.reason)
		})
	}
	if err := m.Load(t.Context(), Request{Name: "a", Config: `{"nonsense":1}`}); err == nil ||
		!strings.HasPrefix(err.Error(), "failed to load 'a', failed to poll from model repository: ") {
		t.Error(err)
	}
	wantServed(t, m, "a", -1, 2)
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
	o := of(top, "a")
	o.LoadRetries = 2
	m := start(t, o, echo)
	wantServed(t, m, "a", -1, 1)
}

func TestBackendOpensAgainAfterAFailure(t *testing.T) {
	missing := true
	echo := &nesotest.Echo{Name: "echo", OnOpen: func(_ backend.Host, s backend.Settings) error {
		if s.Values["of"] != "echo" || s.Directory != "dir" {
			t.Errorf("settings %+v", s)
		}
		if missing {
			return backend.Errorf(backend.Unavailable, "libecho.so is missing")
		}
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	o := of(top)
	o.Settings = func(name string) backend.Settings {
		return backend.Settings{Directory: "dir", Values: map[string]string{"of": name}}
	}
	m := start(t, o, echo)
	wantError(t, m.Load(t.Context(), Request{Name: "a"}), backend.InvalidArg,
		"load failed for model 'a': version 1 is at UNAVAILABLE state: Unavailable: libecho.so is missing;\n")
	missing = false
	mustLoad(t, m, Request{Name: "a"})
	if n := echo.Opened.Load(); n != 2 {
		t.Errorf("opened %d times", n)
	}
}

func TestConcurrentLoads(t *testing.T) {
	entered, release := make(chan struct{}, 8), make(chan struct{})
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(context.Context, backend.Config) error {
		entered <- struct{}{}
		<-release
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	m := start(t, of(top), echo)
	done := make(chan error, 3)
	go func() { done <- m.Load(t.Context(), Request{Name: "a"}) }()
	<-entered
	wantIndex(t, m, "a 1 LOADING\nb\n")
	if m.AllReady() == nil {
		t.Error("ready while a model loads")
	}
	// A load and an unload of the same model wait for the first, unless the caller
	// leaves.
	impatient, leave := context.WithCancel(t.Context())
	leave()
	wantError(t, m.UnloadAfter(impatient, "a", false), backend.Internal,
		"a related model 'a' to a load/unload request is currently loading or unloading")
	go func() { done <- m.Load(t.Context(), Request{Name: "a"}) }()
	go func() { done <- m.Load(t.Context(), Request{Name: "b"}) }() // another model at the same time
	<-entered
	// A caller that leaves does not end the load.
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := m.Load(gone, Request{Name: "a"}); err == nil {
		t.Error("no error")
	}
	close(release)
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	wantServed(t, m, "a", -1, 1)
	wantServed(t, m, "b", -1, 1)
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
	o := of(nesotest.Tree(t, files), strings.Split("abcdefghij", "")...)
	o.LoadThreads = 3
	start(t, o, echo)
	if n := most.Load(); n > 3 {
		t.Errorf("%d loads at once, want at most 3", n)
	}
}

// A file that `runtime` names and that is nowhere keeps the model from loading,
// in Triton's words; one that is there, or is what the backend would be in
// Triton, does not.
func TestRuntime(t *testing.T) {
	with := func(runtime string) string { return echoConfig + "\nruntime: \"" + runtime + "\"\n" }
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": with("nope.so"), "a/1/": "",
		"b/config.pbtxt": with("libtriton_echo.so"), "b/1/": "",
		"c/config.pbtxt": with("mine.so"), "c/1/mine.so": "x",
		"d/config.pbtxt": with("mine.so"), "d/1/": "", "d/mine.so": "x",
		"e/config.pbtxt": with("../mine.so"), "e/1/": "",
		"f/config.pbtxt": with("none.py"), "f/1/": "",
	})
	m := start(t, of(top), &nesotest.Echo{Name: "echo"})
	for _, name := range []string{"b", "c", "d"} {
		mustLoad(t, m, Request{Name: name})
	}
	for name, file := range map[string]string{"a": "nope.so", "f": "none.py"} {
		err := m.Load(t.Context(), Request{Name: name})
		if want := "Invalid argument: unable to find backend library '" + file + "' for model '" + name + "', searched: "; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if err != nil && strings.Contains(err.Error(), top) {
			t.Errorf("%s: the error tells clients where the repository is: %v", name, err)
		}
	}
	if err := m.Load(t.Context(), Request{Name: "e"}); err == nil || !strings.Contains(err.Error(), "'../mine.so'") {
		t.Errorf("outside of the model: got %v", err)
	}
}

// TestNotProvided: without a configuration and without completion there is none.
func TestNotProvided(t *testing.T) {
	o := of(nesotest.Tree(t, map[string]string{"a/1/": ""}))
	o.DisableAutoComplete = true
	m := start(t, o, &nesotest.Echo{Name: "echo"})
	wantError(t, m.Load(t.Context(), Request{Name: "a"}), backend.Internal,
		"failed to load 'a', failed to poll from model repository: model configuration is not provided for model 'a'")
}

// TestLoadAllSaysWhatFailed: one that is not there does not keep the others from
// serving.
func TestLoadAllSaysWhatFailed(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	m := start(t, of(top, "b"), &nesotest.Echo{Name: "echo"})
	wantError(t, reason.All(m.LoadAll(t.Context(), []string{"a", "nope"})), backend.Internal,
		"failed to load all models\n  nope: failed to load 'nope', failed to poll from model repository: failed to poll model 'nope': model "+
			"not found in any model repository")
	wantServed(t, m, "a", -1, 1)
}
