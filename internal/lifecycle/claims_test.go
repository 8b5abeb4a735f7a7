package lifecycle

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

// An ensemble that is being loaded keeps its parts: what would take one away or
// change it comes after the load, as in Triton, whether the part serves already, has
// been loaded for the ensemble, or is being loaded.
func TestPartsStayWhileTheirEnsembleLoads(t *testing.T) {
	const parts = "first brought last"
	unload := func(name string) func(*testing.T, *Manager) error {
		return func(t *testing.T, m *Manager) error { return m.UnloadAfter(t.Context(), name, false) }
	}
	for name, tc := range map[string]struct {
		do    func(*testing.T, *Manager) error
		index string
	}{
		"unload of one that serves": {
			unload("first"),
			"brought 1 READY\ne 1 UNAVAILABLE unloaded\nfirst 1 UNAVAILABLE unloaded\nlast 1 READY\nouter 1 UNAVAILABLE unloaded\n",
		},
		"unload of one that was brought": {
			unload("brought"),
			"brought 1 UNAVAILABLE unloaded\ne 1 UNAVAILABLE unloaded\nfirst 1 READY\nlast 1 READY\nouter 1 UNAVAILABLE unloaded\n",
		},
		"unload of one that is loading": {
			unload("last"),
			"brought 1 READY\ne 1 UNAVAILABLE unloaded\nfirst 1 READY\nlast 1 UNAVAILABLE unloaded\nouter 1 UNAVAILABLE unloaded\n",
		},
		"unload of an ensemble in it": {
			unload("e"),
			"brought 1 READY\ne 1 UNAVAILABLE unloaded\nfirst 1 READY\nlast 1 READY\nouter 1 UNAVAILABLE unloaded\n",
		},
		"load of one that serves": {
			func(t *testing.T, m *Manager) error {
				return m.Load(t.Context(), Request{Name: "first", Config: strings.Replace(echoJSON, "{", `{"metric_tags":{"a":"b"},`, 1)})
			},
			"brought 1 READY\ne 1 READY\nfirst 1 READY\nlast 1 READY\nouter 1 READY\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"e/config.pbtxt": ensembleConfig(strings.Fields(parts)...), "e/1/": "",
				"outer/config.pbtxt": ensembleConfig("e", "first"), "outer/1/": "",
			}
			for part := range strings.FieldsSeq(parts) {
				files[part+"/config.pbtxt"], files[part+"/1/"] = echoConfig, ""
			}
			top := nesotest.Tree(t, files)
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				m := manage(t, of(top), &nesotest.Echo{Name: "echo", OnLoad: func(_ context.Context, c backend.Config) error {
					if c.Name == "last" {
						<-gate
					}
					return nil
				}})
				defer func() {
					if err := m.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				mustLoad(t, m, Request{Name: "first"})
				loaded, done := make(chan error, 1), make(chan error, 1)
				go func() { loaded <- m.Load(t.Context(), Request{Name: "outer"}) }()
				synctest.Wait()
				go func() { done <- tc.do(t, m) }()
				synctest.Wait()
				select {
				case err := <-done:
					t.Errorf("it did not wait for the load: %v", err)
					done <- err
				default:
				}
				close(gate)
				if err := <-loaded; err != nil {
					t.Error("the load of the ensemble:", err)
				}
				if err := <-done; err != nil {
					t.Error("what came after it:", err)
				}
				synctest.Wait()
				wantIndex(t, m, tc.index)
				m.mu.Lock()
				defer m.mu.Unlock()
				if len(m.claims.held)+len(m.claims.claimed) > 0 {
					t.Errorf("left behind: %v", m.claims)
				}
			})
		})
	}
}

// What cannot wait, a request of a model, is told that it is in the way; a load of
// such a request passes, since its ensemble may be the one that waits for it.
func TestNestedRequestsDoNotWaitForAnEnsemble(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "",
		"e/config.pbtxt": ensembleConfig("a", "b"), "e/1/": "",
	})
	var m *Manager
	var unloaded, loaded error
	m = start(t, of(top), &nesotest.Echo{Name: "echo", OnLoad: func(ctx context.Context, c backend.Config) error {
		if c.Name == "b" {
			unloaded = m.Unload("a", false)
			loaded = m.Load(ctx, Request{Name: "a", Nested: true})
		}
		return nil
	}})
	mustLoad(t, m, Request{Name: "e"})
	wantError(t, unloaded, backend.Internal, "a related model 'a' to a load/unload request is currently loading or unloading")
	if loaded != nil {
		t.Error(loaded)
	}
	wantServed(t, m, "e", -1, 1)
}

// Loads that wait for each other's models do not turn round and round meanwhile.
func TestWaitsAreNotBusy(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, of(top))
		const enough = 1000
		tries := 0
		if err := m.claim("b", false); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			done <- m.patiently(t.Context(), func() error {
				if tries++; tries == enough {
					return nil
				}
				if err := m.claim("a", false); err != nil {
					return err
				}
				defer m.unclaim("a")
				if err := m.claim("b", false); err != nil {
					return err
				}
				m.unclaim("b")
				return nil
			})
		}()
		synctest.Wait()
		if tries != 1 {
			t.Errorf("tried %d times while the model was claimed", tries)
		}
		m.unclaim("b")
		if err := <-done; err != nil {
			t.Error(err)
		}
		if tries != 2 {
			t.Errorf("tried %d times, want 2", tries)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
