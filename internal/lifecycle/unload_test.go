package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestUnloadWithRequestsInFlight(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	echo := &nesotest.Echo{Name: "echo", OnExecute: func(context.Context, backend.Config, *backend.Batch) (bool, error) {
		entered <- struct{}{}
		<-release
		return false, nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	m := start(t, of(top, "a"), echo)
	answer := make(chan error, 1)
	go func() {
		_, err := ask(m, "a", -1)
		answer <- err
	}()
	<-entered
	if err := m.Unload("a", false); err != nil {
		t.Fatal(err)
	}
	wantIndex(t, m, "a 1 UNLOADING\n")
	err := pinned(m, "a", -1)
	wantError(t, err, backend.NotFound, "Request for unknown model: 'a' has no available versions")
	// It can come back before its former self is gone.
	mustLoad(t, m, Request{Name: "a"})
	wantIndex(t, m, "a 1 READY\n")
	close(release)
	if err := <-answer; err != nil {
		t.Error("the request in flight failed:", err)
	}
	wantServed(t, m, "a", -1, 1)
	wantIndex(t, m, "a 1 READY\n")
}

func TestCloseStopsLoads(t *testing.T) {
	entered := make(chan struct{}, 1)
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(ctx context.Context, _ backend.Config) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	m := start(t, of(top), echo)
	loaded := make(chan error, 1)
	go func() { loaded <- m.Load(t.Context(), Request{Name: "a"}) }()
	<-entered
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-loaded; err == nil {
		t.Error("the load has succeeded")
	}
}

// TestDrainIsBounded: a request that never ends does not keep an unloaded
// version for ever.
func TestDrainIsBounded(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	synctest.Test(t, func(t *testing.T) {
		echo := &nesotest.Echo{Name: "echo", OnExecute: func(ctx context.Context, _ backend.Config, _ *backend.Batch) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}}
		m := manage(t, of(top), echo)
		if err := reason.All(m.LoadAll(t.Context(), []string{"a"})); err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() {
			_, err := ask(m, "a", -1)
			answer <- err
		}()
		synctest.Wait()
		if err := m.Unload("a", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Minute - time.Second)
		wantIndex(t, m, "a 1 UNLOADING\n")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantIndex(t, m, "a 1 UNAVAILABLE unloaded\n")
		if <-answer == nil {
			t.Error("the request has succeeded")
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestUnloadWithDependents takes away the parts that the ensemble has brought in, and
// leaves those that somebody had asked for before.
func TestUnloadWithDependents(t *testing.T) {
	for _, tc := range []struct{ startup, loads, want string }{
		{"", "e", "a UNAVAILABLE b UNAVAILABLE"},
		{"", "a e", "a READY b UNAVAILABLE"},
		{"", "e a", "a UNAVAILABLE b UNAVAILABLE"}, // it served: nothing was asked for
		{"e", "", "a UNAVAILABLE b UNAVAILABLE"},
		{"b e", "", "a UNAVAILABLE b READY"},
	} {
		top := nesotest.Tree(t, map[string]string{
			"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "",
			"e/config.pbtxt": ensembleConfig("a", "b"), "e/1/": "",
		})
		m := start(t, of(top, strings.Fields(tc.startup)...), &nesotest.Echo{Name: "echo"})
		for name := range strings.FieldsSeq(tc.loads) {
			mustLoad(t, m, Request{Name: name})
		}
		if err := m.Unload("e", true); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range []string{"a", "b"} {
			state := "UNAVAILABLE"
			if m.serves(name) {
				state = "READY"
			}
			got = append(got, name, state)
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("startup %q, loads %q: %s, want %s", tc.startup, tc.loads, text, tc.want)
		}
	}
}

// TestEnsemblesComeBack tells what a load of a part does to the ensembles that it took
// away, and to those whose load had failed for it.
func TestEnsemblesComeBack(t *testing.T) {
	for _, tc := range []struct{ does, want string }{
		{"load outer; unload a; load a", "a READY b READY e READY outer READY"},
		{"load e; unload a; load a", "a READY b READY e READY"},
		{"load e; unload e; unload a; load a", "a READY b READY"},
		{"load e; unload a; unload e; load a", "a READY b READY"},
		{"load e; unload a; unload b; load a", "a READY"}, // b is not fetched
		{"load e; unload a; unload b; load a; load b", "a READY b READY e READY"},
		{"break a; load e; mend a; load a; load b", "a READY b READY e READY"},
		{"load e; unload a; break a; load a; mend a; load a", "a READY b READY e READY"},
		{"load outer; unload e; load e", "a READY b READY e READY outer READY"},
		{"load outer; unload e; load a", "a READY b READY"},
		{"load outer; evict a; load a", "a READY b READY"},
		// A part with other tensors takes the ensembles along until it has its own again.
		{"load outer; change a; load a", "a READY b READY"},
		{"load outer; change a; load a; load e", "a READY b READY"},
		{"load outer; change a; load a; mend a; load a", "a READY b READY e READY outer READY"},
		{"load outer; change a; load a; unload outer; mend a; load a", "a READY b READY e READY"},
		{"load e; change a; load a; unload e; mend a; load a", "a READY b READY"},
		{"load e; change a; load a; unload a; mend a; load a", "a READY b READY e READY"},
		{"load e; change a; load a; unload b; mend a; load a", "a READY"},
		{"load e; change a; load a; unload b; mend a; load a; load b", "a READY b READY e READY"},
		{"load e; change a; load b", "a READY b READY e READY"}, // b has not changed, a is not asked for
		// A load of an ensemble takes what has become of its parts.
		{"load e; change a; load e", "a READY b READY"},
		{"load outer; change a; load outer", "a READY b READY"},
		{"load outer; change a; load outer; mend a; load outer", "a READY b READY e READY outer READY"},
		{"load outer; break a; load outer", "a READY b READY e READY outer READY"},
		{"load other; unload a; load e", "a READY b READY e READY other READY"}, // it brings a in
		{"load other; load e; change a; load e", "a READY b READY"},
		{"load other; load e; change a; load e; mend a; load e", "a READY b READY e READY other READY"},
	} {
		top := nesotest.Tree(t, map[string]string{
			"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "",
			"e/config.pbtxt": ensembleConfig("a", "b"), "e/1/": "",
			"outer/config.pbtxt": ensembleConfig("e"), "outer/1/": "", "other/config.pbtxt": ensembleConfig("a"), "other/1/": "",
		})
		m := start(t, of(top), &nesotest.Echo{Name: "echo"})
		for does := range strings.SplitSeq(tc.does, "; ") {
			verb, name, _ := strings.Cut(does, " ")
			switch verb {
			case "load":
				_ = m.Load(t.Context(), Request{Name: name})
			case "unload":
				if err := m.UnloadAfter(t.Context(), name, false); err != nil {
					t.Fatal(err)
				}
			case "evict":
				if err := m.Evict(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			case "break":
				nesotest.Put(t, top, name+"/config.pbtxt", "backend: 7")
			case "change":
				nesotest.Put(t, top, name+"/config.pbtxt", strings.ReplaceAll(echoConfig, "TYPE_FP32", "TYPE_INT32"))
			case "mend":
				nesotest.Put(t, top, name+"/config.pbtxt", echoConfig)
			}
		}
		var got []string
		for _, name := range []string{"a", "b", "e", "other", "outer"} {
			if m.serves(name) {
				got = append(got, name, "READY")
			}
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%s: %s, want %s", tc.does, text, tc.want)
		}
		if err := m.AllReady(); err != nil {
			t.Errorf("%s: what was taken away counts against readiness: %v", tc.does, err)
		}
	}
}

// TestEnsembleStaysAsItWas: the load of a part makes an ensemble anew, of what it was
// loaded from: neither its file, which has changed, nor the file in place of the
// configuration of a request.
func TestEnsembleStaysAsItWas(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "e/config.pbtxt": ensembleConfig("a"), "e/1/": "",
	})
	m := start(t, of(top, "a", "e"), &nesotest.Echo{Name: "echo"})
	change := func(n string) {
		t.Helper()
		nesotest.Put(t, top, "a/1/x", n)
		mustLoad(t, m, Request{Name: "a"})
	}
	tagged := func(want string) {
		t.Helper()
		v := m.Pin("e", -1)
		if v == nil {
			t.Fatal(m.Explain("e", -1))
		}
		defer v.Unpin()
		if got := v.Config().MetricTags["by"]; got != want {
			t.Errorf("tagged %q, want %q", got, want)
		}
	}
	before := m.Find("e", -1)
	nesotest.Put(t, top, "e/config.pbtxt", ensembleConfig("a")+`metric_tags { key: "by" value: "file" }`)
	change("1")
	tagged("")
	if m.Find("e", -1) == before {
		t.Error("it has not been made anew")
	}
	const config = `{"platform":"ensemble","metric_tags":{"by":"request"},"input":[{"name":"IN","data_type":"TYPE_FP32","dims":[-1]}],
"output":[{"name":"OUT","data_type":"TYPE_FP32","dims":[-1]}],
"ensemble_scheduling":{"step":[{"model_name":"a","model_version":-1,"input_map":{"IN":"IN"},"output_map":{"OUT":"OUT"}}]}}`
	mustLoad(t, m, Request{Name: "e", Config: config})
	change("2")
	tagged("request")
	mustUnload(t, m, "a")
	mustLoad(t, m, Request{Name: "a"})
	tagged("request")
	mustLoad(t, m, Request{Name: "e"})
	tagged("file")
}

// TestUnloadKeepsTheReason: a version that has failed to load says so after it was
// unloaded, too, and no longer counts against readiness.
func TestUnloadKeepsTheReason(t *testing.T) {
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(context.Context, backend.Config) error {
		return backend.Errorf(backend.Unavailable, "no memory")
	}}
	m := start(t, of(nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})), echo)
	if m.Load(t.Context(), Request{Name: "a"}) == nil || m.AllReady() == nil {
		t.Error("it does not fail")
	}
	mustUnload(t, m, "a")
	wantIndex(t, m, "a 1 UNAVAILABLE Unavailable: no memory\n")
	if err := m.AllReady(); err != nil {
		t.Error(err)
	}
	wantError(t, pinned(m, "a", -1), backend.NotFound, "Request for unknown model: 'a' has no available versions")
	if m.Load(t.Context(), Request{Name: "a"}) == nil || m.AllReady() == nil {
		t.Error("it is wanted again")
	}
}

// TestUnloaded: the wait ends with the last request in flight, with its context, or
// when the model is loaded again; for what is not unloading there is none.
func TestUnloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		echo := &nesotest.Echo{Name: "echo", OnExecute: func(context.Context, backend.Config, *backend.Batch) (bool, error) {
			entered <- struct{}{}
			<-release
			return false, nil
		}}
		top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
		m := start(t, of(top, "a"), echo)
		for _, name := range []string{"a", "none"} {
			if err := m.Unloaded(t.Context(), name); err != nil {
				t.Errorf("%s does not unload: %v", name, err)
			}
		}
		for _, again := range []bool{false, true} {
			answer, waited := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := ask(m, "a", -1)
				answer <- err
			}()
			<-entered
			if err := m.Unload("a", false); err != nil {
				t.Fatal(err)
			}
			go func() { waited <- m.Unloaded(t.Context(), "a") }()
			synctest.Wait()
			select {
			case err := <-waited:
				t.Fatal("a request was in flight, the wait ended with", err)
			default:
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := m.Unloaded(ctx, "a"); !errors.Is(err, context.Canceled) {
				t.Error("got", err, "want that of the context")
			}
			if again {
				mustLoad(t, m, Request{Name: "a"})
				if err := <-waited; err != nil {
					t.Error(err)
				}
				release <- struct{}{}
			} else {
				release <- struct{}{}
				if err := <-waited; err != nil {
					t.Error(err)
				}
				wantIndex(t, m, "a 1 UNAVAILABLE unloaded\n")
				mustLoad(t, m, Request{Name: "a"})
			}
			if err := <-answer; err != nil {
				t.Error("the request in flight failed:", err)
			}
		}
	})
}

// TestEvictLeavesWhatIsInUse: a request that comes between the look at an idle model and its
// eviction keeps it, and so does one for an ensemble that would go with it.
func TestEvictLeavesWhatIsInUse(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "e/config.pbtxt": ensembleConfig("a"), "e/1/": "",
	})
	m := start(t, of(top), &nesotest.Echo{Name: "echo"})
	if err := m.Load(t.Context(), Request{Name: "e"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "e"} {
		v := m.Pin(name, -1)
		if err := m.Evict(t.Context(), "a"); err == nil || !m.serves("a") || !m.serves("e") {
			t.Errorf("with a request for %s: %v, a serves: %t, e: %t", name, err, m.serves("a"), m.serves("e"))
		}
		v.Unpin()
	}
	if err := m.Evict(t.Context(), "a"); err != nil || m.serves("a") || m.serves("e") {
		t.Errorf("idle: %v, a serves: %t, e: %t", err, m.serves("a"), m.serves("e"))
	}
}
