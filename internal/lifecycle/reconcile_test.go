package lifecycle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

// TestReconcile: models come, change and go with their repository, and the ensembles
// that use them with them; a change that fails leaves what serves.
func TestReconcile(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "", "e/config.pbtxt": ensembleConfig("a"), "e/1/": "",
	})
	echo := &nesotest.Echo{Name: "echo"}
	m := start(t, of(top, "a", "b", "e"), echo)
	present := []string{"a", "b", "e"}
	reconcile := func(load, gone []string, want ...string) {
		t.Helper()
		var failed []string
		for _, f := range m.Reconcile(t.Context(), load, gone, present) {
			failed = append(failed, f.Model)
		}
		if strings.Join(failed, " ") != strings.Join(want, " ") {
			t.Errorf("failed %v, want %v", failed, want)
		}
		settle(t, m)
	}

	loads := echo.Loads.Load()
	reconcile(present, nil)
	if n := echo.Loads.Load(); n != loads {
		t.Error("loaded again without a change")
	}

	nesotest.Put(t, top, "a/2/", "")
	reconcile([]string{"a"}, nil)
	wantIndex(t, m, "a 1 UNAVAILABLE unloaded\na 2 READY\nb 1 READY\ne 1 READY\n")
	wantServed(t, m, "e", -1, 1)

	nesotest.Put(t, top, "b/config.pbtxt", "max_batch_size: -1\n"+echoConfig)
	reconcile([]string{"b"}, nil, "b")
	if i := index(t, m); !strings.Contains(i, "b 1 READY the latest change is not served: ") || m.AllReady() != nil {
		t.Error(i, m.AllReady())
	}
	nesotest.Put(t, top, "b/config.pbtxt", echoConfig)
	reconcile([]string{"b"}, nil)
	wantIndex(t, m, "a 1 UNAVAILABLE unloaded\na 2 READY\nb 1 READY\ne 1 READY\n")

	// A model that goes takes the ensembles along, which come back with it.
	if err := os.Rename(filepath.Join(top, "a"), filepath.Join(top, ".a")); err != nil {
		t.Fatal(err)
	}
	present = []string{"b", "e"}
	reconcile(nil, []string{"a"}, "e")
	if pinned(m, "a", -1) == nil || pinned(m, "e", -1) == nil || pinned(m, "b", -1) != nil {
		t.Error(index(t, m))
	}
	if err := os.Rename(filepath.Join(top, ".a"), filepath.Join(top, "a")); err != nil {
		t.Fatal(err)
	}
	present = []string{"a", "b", "e"}
	reconcile([]string{"a"}, nil)
	wantServed(t, m, "a", -1, 2)
	wantServed(t, m, "e", -1, 1)
}
