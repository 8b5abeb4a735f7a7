package lifecycle

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestReloadOnlyWhatChanged(t *testing.T) {
	var mu sync.Mutex
	var loaded []int64
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(_ context.Context, cfg backend.Config) error {
		mu.Lock()
		defer mu.Unlock()
		loaded = append(loaded, cfg.Version)
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig + "version_policy: { latest { num_versions: 2 } }", "a/1/w": "1",
		"a/2/w": "2",
	})
	m := start(t, of(top, "a"), echo)
	loaded = nil
	nesotest.Put(t, top, "a/3/w", "3")
	mustLoad(t, m, Request{Name: "a"})
	if len(loaded) != 1 || loaded[0] != 3 {
		t.Error("loaded", loaded)
	}
	settle(t, m)
	wantIndex(t, m, "a 1 UNAVAILABLE unloaded\na 2 READY\na 3 READY\n")
	loaded = nil
	nesotest.Put(t, top, "a/2/w", "changed")
	mustLoad(t, m, Request{Name: "a"})
	if len(loaded) != 1 || loaded[0] != 2 {
		t.Error("loaded", loaded)
	}
	loaded = nil
	nesotest.Put(t, top, "a/config.pbtxt", echoConfig+"version_policy: { latest { num_versions: 2 } } metric_tags { key: \"k\" value: \"v\" }")
	mustLoad(t, m, Request{Name: "a"})
	if len(loaded) != 2 {
		t.Error("loaded", loaded)
	}
}

// TestReplacedVersionsAreUnloaded: the log says when one that was replaced is gone, as
// of one that was unloaded: until then its memory is in use.
func TestReplacedVersionsAreUnloaded(t *testing.T) {
	var log nesotest.Log
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/3/w": "1"})
	o := of(top, "a")
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	m := start(t, o, &nesotest.Echo{Name: "echo"})
	nesotest.Put(t, top, "a/3/w", "changed")
	mustLoad(t, m, Request{Name: "a"})
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "successfully unloaded 'a' version 3"); n != 2 {
		t.Errorf("said %d times, want of both:\n%s", n, log.String())
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
	m := start(t, of(top, "a"), echo)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var served atomic.Int64
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := ask(m, "a", -1); err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := range 30 {
		before := served.Load()
		mustLoad(t, m, Request{Name: "a", Config: strings.Replace(echoJSON, `{`, `{"metric_tags":{"n":"`+strconv.Itoa(i)+`"},`, 1)})
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
	m := start(t, of(top, "a"), echo)
	fail.Store(true)
	config := strings.Replace(echoJSON, `{`, `{"version_policy":{"all":{}},"metric_tags":{"k":"v"},`, 1)
	wantError(t, m.Load(t.Context(), Request{Name: "a", Config: config}), backend.InvalidArg,
		"load failed for model 'a': version 2 is at UNAVAILABLE state: Unavailable: no memory;\n")
	wantServed(t, m, "a", 1, 1)
	wantServed(t, m, "a", 2, 2)
	why := " the latest change is not served: load failed for model 'a': version 2 is at UNAVAILABLE state: Unavailable: no memory;\n"
	wantIndex(t, m, "a 1 READY"+why+"a 2 READY"+why)
	if err := m.AllReady(); err != nil {
		t.Error(err)
	}
	if n := echo.Models.Load(); n != 2 {
		t.Errorf("%d models alive, want 2", n)
	}
	// A first load with a failing version serves none of them.
	mustUnload(t, m, "a")
	if err := m.Load(t.Context(), Request{Name: "a", Config: config}); err == nil {
		t.Error("no error")
	}
	wantIndex(t, m, "a 1 UNAVAILABLE another version of the model failed to load\na 2 UNAVAILABLE Unavailable: no memory\n")
	if m.AllReady() == nil {
		t.Error("ready")
	}
	fail.Store(false)
	mustLoad(t, m, Request{Name: "a", Config: config})
	wantServed(t, m, "a", -1, 2)
}
