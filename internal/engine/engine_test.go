package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

const (
	echoConfig = nesotest.EchoConfig
	echoJSON   = nesotest.EchoJSON
	boundJSON  = nesotest.BoundJSON
)

var ensembleConfig = nesotest.EnsembleConfig

// isTimeout reports whether an error of Close says that requests were cut off.
func isTimeout(err error) bool {
	var b *backend.Error
	return errors.As(err, &b) && b.Code == backend.Internal && b.Message == timeout().Error()
}

// server starts an engine on the repository and closes it at the test's end.
func server(t *testing.T, o Options, echoes ...*nesotest.Echo) *Engine {
	t.Helper()
	e, err := starting(t, o, echoes...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func starting(t *testing.T, o Options, echoes ...*nesotest.Echo) (*Engine, error) {
	t.Helper()
	for _, b := range echoes {
		o.Backends = append(o.Backends, b.Driver())
	}
	o.TempDir = t.TempDir()
	e, err := New(o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil && !isTimeout(err) {
			t.Errorf("Close: %v", err)
		}
		for _, b := range echoes {
			if n := b.Alive(); n != 0 {
				t.Errorf("backend %s: %d backends, models or instances left open", b.Name, n)
			}
		}
		if left, _ := os.ReadDir(o.TempDir); len(left) > 0 {
			t.Errorf("directories left behind: %v", left)
		}
		if n := e.admission.requests.Load() + e.admission.ledger.Held(ledger.In) + e.admission.external.Load(); n != 0 {
			t.Errorf("admission still counts %d", n)
		}
	})
	return e, e.Start(t.Context())
}

// input is a request's IN with n elements.
func input(n int) tensor.Tensor {
	return tensor.Tensor{Name: "IN", Datatype: tensor.FP32, Shape: tensor.Shape{int64(n)}, Data: make([]byte, 4*n)}
}

// ask sends one request and returns the answer's error.
func ask(e *Engine, name string, version int64) (int64, error) {
	p, err := e.Resolve(context.Background(), name, version, 8)
	if err != nil {
		return 0, err
	}
	sink := infer.NewSingle()
	r := p.NewRequest(sink)
	r.Inputs = []tensor.Tensor{input(2)}
	r.Times.Start = backend.Now()
	served := r.ModelVersion
	if err := e.Infer(r); err != nil {
		return served, err
	}
	resp, failed := sink.Wait()
	if failed != nil {
		return served, failed
	}
	defer resp.Release()
	if len(resp.Outputs) != 1 || len(resp.Outputs[0].Data) != 8 {
		return served, fmt.Errorf("unexpected outputs %v", resp.Outputs)
	}
	return served, nil
}

func wantServed(t *testing.T, e *Engine, name string, version, want int64) {
	t.Helper()
	if got, err := ask(e, name, version); err != nil || got != want {
		t.Errorf("%s version %d: served by %d, %v; want %d", name, version, got, err, want)
	}
}

func wantError(t *testing.T, err error, code backend.Code, text string) {
	t.Helper()
	var e *backend.Error
	if !errors.As(err, &e) || e.Code != code || e.Message != text {
		t.Errorf("got %v\nwant %v: %s", err, code, text)
		if e != nil {
			t.Errorf("code %v", e.Code)
		}
	}
}

func index(t *testing.T, e *Engine) string {
	t.Helper()
	entries, err := e.Index(false)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, i := range entries {
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%s %s %s %s", i.Name, i.Version, i.State, i.Reason), " "))
	}
	return b.String()
}

func wantIndex(t *testing.T, e *Engine, want string) {
	t.Helper()
	if d := cmp.Diff(index(t, e), want); d != "" {
		t.Errorf("index: got -, want +\n%s", d)
	}
}

// settle waits until no version is loading or unloading.
func settle(t *testing.T, e *Engine) {
	t.Helper()
	for strings.Contains(index(t, e), "LOADING") {
		select {
		case <-t.Context().Done():
			t.Fatal("not settled")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestServesARepository(t *testing.T) {
	echo := &nesotest.Echo{Name: "echo"}
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "a/2/": "",
		"all/config.pbtxt": echoConfig + "version_policy: { all {} }", "all/1/": "", "all/3/": "",
		"some/config.pbtxt": echoConfig + "version_policy: { specific { versions: [1, 3, 9] } }", "some/1/": "", "some/2/": "", "some/3/": "",
	})
	e := server(t, Options{Repositories: []string{top}, ExitOnError: true, StrictReadiness: true}, echo)
	wantIndex(t, e, "a 2 READY\nall 1 READY\nall 3 READY\nsome 1 READY\nsome 3 READY\n")
	wantServed(t, e, "a", -1, 2)
	wantServed(t, e, "all", 1, 1)
	wantServed(t, e, "all", -1, 3)
	_, err := e.Resolve(t.Context(), "nope", -1, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'nope' is not found")
	_, err = e.Resolve(t.Context(), "a", 1, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'a' version 1 is not found")
	if err := errors.Join(e.Live(), e.Ready(), e.ModelReady("a", -1), e.ModelReady("a", 2)); err != nil {
		t.Error(err)
	}
	if e.ModelReady("a", 1) == nil || e.ModelReady("nope", -1) == nil {
		t.Error("ready, but not there")
	}
	config, versions, err := e.Model("all", -1)
	if err != nil || config.Name != "all" || !cmp.Equal(versions, []int64{1, 3}) {
		t.Error(config, versions, err)
	}
	if n := echo.Opened.Load(); n != 1 {
		t.Errorf("the backend was opened %d times", n)
	}
	all, err := e.Statistics("", -1)
	if err != nil || len(all) != 5 {
		t.Error(all, err)
	}
	for _, v := range all {
		if v.LoadTime <= 0 {
			t.Errorf("%s: no load time", v.Name)
		}
	}
	one, err := e.Statistics("all", 3)
	if err != nil || len(one) != 1 || one[0].Version != 3 {
		t.Error(one, err)
	}
	_, err = e.Statistics("nope", -1)
	wantError(t, err, backend.InvalidArg, "requested model 'nope' is not available")
	for _, version := range []int64{2, -2} {
		_, err = e.Statistics("all", version)
		wantError(t, err, backend.InvalidArg, "requested model version is not available for model 'all'")
	}
	wantError(t, e.Load(t.Context(), "a", "", nil), backend.Unavailable, "explicit model load / unload is not allowed if polling is enabled")
	wantError(t, e.Unload(t.Context(), "a", false), backend.Unavailable, "explicit model load / unload is not allowed if polling is enabled")
}

func TestOptions(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"file": ""})
	missing := filepath.Join(top, "missing")
	for name, tc := range map[string]struct {
		o    Options
		code backend.Code
		text string
	}{
		"no repository": {Options{}, backend.InvalidArg, "model-repository must be specified"},
		"missing": {
			Options{Repositories: []string{missing}, ExitOnError: true},
			backend.Internal,
			"failed to stat file " + missing + ": no such file or directory (expected a directory of models)",
		},
		"not a directory": {
			Options{Repositories: []string{filepath.Join(top, "file")}, ExitOnError: true},
			backend.InvalidArg,
			"repository path is not a valid directory: " + filepath.Join(top, "file") + " is a file (expected a directory of models)",
		},
		"mode": {
			Options{Repositories: []string{top}, ControlMode: "x"},
			backend.InvalidArg,
			"invalid argument for model-control-mode",
		},
		"startup, not none": {
			Options{Repositories: []string{top}, StartupModels: []string{"a"}},
			backend.InvalidArg,
			"Use of 'load-model' requires setting 'model-control-mode=explicit' as well.",
		},
		"star and more": {
			Options{Repositories: []string{top}, ControlMode: "explicit", StartupModels: []string{"*", "a"}},
			backend.InvalidArg, "Wildcard model name '*' must be the ONLY startup model if specified at all.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(tc.o)
			wantError(t, err, tc.code, tc.text)
		})
	}
	t.Run("missing, but going on", func(t *testing.T) {
		e := server(t, Options{Repositories: []string{missing}})
		if e.State() != Failed || e.Live() == nil || e.Ready() == nil {
			t.Error(e.State(), e.Live(), e.Ready())
		}
	})
	t.Run("none wanted", func(t *testing.T) {
		e := server(t, Options{NoRepository: true, StrictReadiness: true})
		if err := errors.Join(e.Live(), e.Ready()); err != nil {
			t.Error(err)
		}
	})
}

func TestBrokenModelsBesideGoodOnes(t *testing.T) {
	echo := func() *nesotest.Echo {
		return &nesotest.Echo{Name: "echo", OnLoad: func(_ context.Context, cfg backend.Config) error {
			if cfg.Name == "fails" {
				return backend.Errorf(backend.Internal, "boom")
			}
			return nil
		}}
	}
	top := nesotest.Tree(t, map[string]string{
		"good/config.pbtxt": echoConfig, "good/1/": "",
		"fails/config.pbtxt": echoConfig, "fails/1/": "",
		"broken/config.pbtxt": "broken {", "broken/1/": "",
		"noversion/config.pbtxt": echoConfig,
		"nobackend/config.pbtxt": strings.Replace(echoConfig, "echo", "other", 1), "nobackend/1/": "",
	})
	other := nesotest.Tree(t, map[string]string{"twice/1/": ""})
	nesotest.Put(t, top, "twice/1/", "")
	repositories := []string{top, other}

	_, err := starting(t, Options{Repositories: repositories, ExitOnError: true, StrictReadiness: true}, echo())
	for _, text := range []string{
		"failed to load all models\n",
		"  broken: failed to load 'broken', failed to poll from model repository: ",
		"  fails: load failed for model 'fails': version 1 is at UNAVAILABLE state: Internal: boom;",
		"  nobackend: load failed for model 'nobackend': version 1 is at UNAVAILABLE state: Invalid argument: unable to find backend library " +
			"for backend 'other', try specifying runtime on the model configuration. (nobackend/config.pbtxt:1, field backend: expected one of " +
			"echo, found \"other\");",
		"  noversion: load failed for model 'noversion': at least one version must be available under the version policy of model 'noversion'",
		"  twice: failed to load 'twice', failed to poll from model repository: failed to poll model 'twice': not unique across all model " +
			"repositories",
	} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("no %q in\n%v", text, err)
		}
	}
	if backend.AsError(err).Code != backend.Internal || strings.Contains(err.Error(), "good") {
		t.Error(err)
	}

	e := server(t, Options{Repositories: repositories, StrictReadiness: true}, echo())
	wantServed(t, e, "good", -1, 1)
	got := index(t, e)
	for _, text := range []string{
		"\nfails 1 UNAVAILABLE Internal: boom\n", "\ngood 1 READY\n", "broken  UNAVAILABLE failed to load 'broken', failed to poll",
		"\ntwice  UNAVAILABLE model appears in two or more repositories\n", "\nnoversion  UNAVAILABLE at least one version must be available",
	} {
		if !strings.Contains(got, text) {
			t.Errorf("no %q in index\n%s", text, got)
		}
	}
	if e.Live() != nil || e.Ready() == nil {
		t.Error("live:", e.Live(), "ready:", e.Ready())
	}
	_, err = e.Resolve(t.Context(), "fails", -1, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'fails' has no available versions")
	_, err = e.Resolve(t.Context(), "fails", 1, 0)
	wantError(t, err, backend.Unavailable, "Request for unknown model: 'fails' version 1 is not at ready state")
	_, err = e.Resolve(t.Context(), "broken", -1, 0)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'broken' is not found")

	loose := server(t, Options{Repositories: repositories}, echo())
	if err := loose.Ready(); err != nil {
		t.Error("not strict:", err)
	}
	// The configuration that cannot be read does not count.
	alone := server(t, Options{
		Repositories:    []string{nesotest.Tree(t, map[string]string{"broken/config.pbtxt": "broken {", "broken/1/": ""})},
		StrictReadiness: true,
	}, echo())
	if err := alone.Ready(); err != nil {
		t.Error("unreadable:", err)
	}
}

func TestReadinessAsksTheModel(t *testing.T) {
	var sick error
	echo := &nesotest.Echo{Name: "echo", OnReady: func(backend.Config) error { return sick }}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	e := server(t, Options{Repositories: []string{top}, StrictReadiness: true}, echo)
	if err := errors.Join(e.Ready(), e.ModelReady("a", -1)); err != nil {
		t.Error(err)
	}
	sick = errors.New("its worker keeps crashing")
	wantError(t, e.ModelReady("a", -1), backend.InvalidArg, "Model version not ready: its worker keeps crashing")
	wantError(t, e.Ready(), backend.InvalidArg, "model 'a' version 1 is not ready: its worker keeps crashing")
}

// Who asks a version in whose place another one comes meanwhile hears of that one.
func TestReadinessWhileAnotherTakesThePlace(t *testing.T) {
	var meanwhile func()
	echo := &nesotest.Echo{Name: "echo", OnReady: func(backend.Config) error {
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
			return errors.New("it is being closed")
		}
		return nil
	}}
	o := explicit(nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "e/config.pbtxt": ensembleConfig("a"),
		"e/1/": "",
	}), "a", "e")
	o.StrictReadiness = true
	e := server(t, o, echo)
	loads := 0
	for name, asked := range map[string]func() error{
		"model":    func() error { return e.ModelReady("a", -1) },
		"version":  func() error { return e.ModelReady("a", 1) },
		"ensemble": func() error { return e.ModelReady("e", -1) },
		"server":   e.Ready,
		"index": func() error {
			if got := index(t, e); strings.Contains(got, "UNAVAILABLE") {
				return errors.New(got)
			}
			return nil
		},
		"readiness": func() error {
			for _, m := range e.Readiness().Models {
				if !m.Ready {
					return errors.New(m.Reason)
				}
			}
			return nil
		},
	} {
		meanwhile = func() {
			loads++
			mustLoad(t, e, "a", strings.Replace(echoJSON, "{", fmt.Sprintf(`{"parameters":{"n":{"string_value":"%d"}},`, loads), 1), nil)
		}
		if err := asked(); err != nil || meanwhile != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMetadata(t *testing.T) {
	e := server(t, Options{NoRepository: true})
	m := e.Metadata()
	if m.Name != "triton" || m.Version != InterfaceVersion || len(m.Extensions) == 0 {
		t.Error(m)
	}
}
