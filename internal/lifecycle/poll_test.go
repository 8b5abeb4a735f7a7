package lifecycle

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/nesotest"
)

const pollEnsemble = `platform: "ensemble"
input { name: "A" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "B" data_type: TYPE_FP32 dims: [ 4 ] }
ensemble_scheduling { step [ { model_name: "a" model_version: -1 input_map { key: "A" value: "A" } output_map { key: "B" value: "B" } } ] }
`

const pollPart = `backend: "echo"
input { name: "A" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "B" data_type: TYPE_FP32 dims: [ 4 ] }
`

// polled is a manager that polls, and how both end.
func polled(t *testing.T, top string, log *nesotest.Log, startup ...string) (*Manager, *nesotest.Echo, func()) {
	t.Helper()
	echo := &nesotest.Echo{Name: "echo"}
	o := of(top, startup...)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	m := manage(t, o, echo)
	p := NewPoller(m, 15*time.Second, 2*time.Second)
	p.Prime(t.Context())
	if err := reason.All(m.LoadAll(t.Context(), startup)); err != nil {
		t.Fatal(err)
	}
	p.Start()
	return m, echo, func() {
		t.Helper()
		p.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// TestPollTakesChanges: models and versions come and go with their directories,
// once these have stayed the same for the settle time.
func TestPollTakesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": pollPart, "a/1/x": "1", "e/config.pbtxt": pollEnsemble, "e/1/": ""})
		var log nesotest.Log
		m, echo, end := polled(t, top, &log, "a", "e")
		defer end()
		wantIndex(t, m, "a 1 READY\ne 1 READY\n")
		next := func() { time.Sleep(15*time.Second + time.Millisecond); synctest.Wait() }
		settle := func() { time.Sleep(2 * time.Second); synctest.Wait() }

		loads := echo.Loads.Load()
		next()
		if n := echo.Loads.Load(); n != loads {
			t.Error("loaded again without a change")
		}

		nesotest.Put(t, top, "b/config.pbtxt", pollPart)
		nesotest.Put(t, top, "b/1/x", "half")
		next()
		wantIndex(t, m, "a 1 READY\nb\ne 1 READY\n")
		nesotest.Put(t, top, "b/1/x", "still growing")
		settle()
		wantIndex(t, m, "a 1 READY\nb\ne 1 READY\n")
		settle()
		wantIndex(t, m, "a 1 READY\nb 1 READY\ne 1 READY\n")

		nesotest.Put(t, top, "b/2/x", "2")
		next()
		settle()
		wantIndex(t, m, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")

		badChange(t, m, &log, top, next, settle)
		wantIndex(t, m, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")

		// A model that goes takes the ensembles along, which come back with it.
		if err := os.Rename(filepath.Join(top, "a"), filepath.Join(top, ".a")); err != nil {
			t.Fatal(err)
		}
		next()
		wantIndex(t, m, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")
		settle()
		if i := index(t, m); strings.Contains(i, "a 1 READY") || strings.Contains(i, "e 1 READY") {
			t.Error(i)
		}
		if err := os.Rename(filepath.Join(top, ".a"), filepath.Join(top, "a")); err != nil {
			t.Fatal(err)
		}
		next()
		settle()
		wantIndex(t, m, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")

		repositoryAway(t, m, &log, top, next)
		wantIndex(t, m, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")
	})
}

// badChange writes a configuration of b that does not load, and mends it: the old
// one serves, and the index says why.
func badChange(t *testing.T, m *Manager, log *nesotest.Log, top string, next, settle func()) {
	t.Helper()
	nesotest.Put(t, top, "b/config.pbtxt", "max_batch_size: -1\n"+pollPart)
	next()
	settle()
	if i := index(t, m); !strings.Contains(i, "b 2 READY the latest change is not served: ") || m.AllReady() != nil {
		t.Error(i, m.AllReady())
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("the reason is logged %d times, want once:\n%s", n, log.String())
	}
	next()
	next()
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("the reason is logged %d times, want once", n)
	}
	nesotest.Put(t, top, "b/config.pbtxt", pollPart+"max_batch_size: 0\n")
	next()
	settle()
}

// repositoryAway takes the repository away and brings it back: that takes no model
// along.
func repositoryAway(t *testing.T, m *Manager, log *nesotest.Log, top string, next func()) {
	t.Helper()
	if err := os.Rename(top, top+".away"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		next()
	}
	if err := pinned(m, "a", -1); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "model repository cannot be read"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	if err := os.Rename(top+".away", top); err != nil {
		t.Fatal(err)
	}
	next()
	if !strings.Contains(log.String(), "can be read again") {
		t.Error(log.String())
	}
}
