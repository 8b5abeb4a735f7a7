package engine

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
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

func pollServer(t *testing.T, top string, log *nesotest.Log) (*Engine, *nesotest.Echo) {
	echo := &nesotest.Echo{Name: "echo"}
	e, err := New(Options{
		Repositories: []string{top}, ControlMode: "poll", PollInterval: 15 * time.Second, PollSettle: 2 * time.Second, StrictReadiness: true,
		Backends: []backend.Driver{echo.Driver()}, TempDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, echo
}

func closePolled(t *testing.T, e *Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestPollTakesChanges: models and versions come and go with their directories,
// once these have stayed the same for the settle time.
func TestPollTakesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": pollPart, "a/1/x": "1", "e/config.pbtxt": pollEnsemble, "e/1/": ""})
		var log nesotest.Log
		e, echo := pollServer(t, top, &log)
		defer closePolled(t, e)
		wantIndex(t, e, "a 1 READY\ne 1 READY\n")
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
		wantIndex(t, e, "a 1 READY\nb\ne 1 READY\n")
		nesotest.Put(t, top, "b/1/x", "still growing")
		settle()
		wantIndex(t, e, "a 1 READY\nb\ne 1 READY\n")
		settle()
		wantIndex(t, e, "a 1 READY\nb 1 READY\ne 1 READY\n")

		nesotest.Put(t, top, "b/2/x", "2")
		next()
		settle()
		wantIndex(t, e, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")

		badChange(t, e, &log, top, next, settle)
		wantIndex(t, e, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")

		// A model that goes takes the ensembles along, which come back with it.
		if err := os.Rename(filepath.Join(top, "a"), filepath.Join(top, ".a")); err != nil {
			t.Fatal(err)
		}
		next()
		wantIndex(t, e, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")
		settle()
		if i := index(t, e); strings.Contains(i, "a 1 READY") || strings.Contains(i, "e 1 READY") {
			t.Error(i)
		}
		if err := os.Rename(filepath.Join(top, ".a"), filepath.Join(top, "a")); err != nil {
			t.Fatal(err)
		}
		next()
		settle()
		wantIndex(t, e, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")

		repositoryAway(t, e, &log, top, next)
		wantIndex(t, e, "a 1 READY\nb 1 UNAVAILABLE unloaded\nb 2 READY\ne 1 READY\n")
	})
}

// badChange writes a configuration of b that does not load, and mends it: the old
// one serves, and the index says why.
func badChange(t *testing.T, e *Engine, log *nesotest.Log, top string, next, settle func()) {
	t.Helper()
	nesotest.Put(t, top, "b/config.pbtxt", "max_batch_size: -1\n"+pollPart)
	next()
	settle()
	if i := index(t, e); !strings.Contains(i, "b 2 READY the latest change is not served: ") || e.Ready() != nil {
		t.Error(i, e.Ready())
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
func repositoryAway(t *testing.T, e *Engine, log *nesotest.Log, top string, next func()) {
	t.Helper()
	if err := os.Rename(top, top+".away"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		next()
	}
	if err := e.ModelReady("a", -1); err != nil {
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
