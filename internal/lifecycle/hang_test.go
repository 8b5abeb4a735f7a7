package lifecycle

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

// TestLoadsThatHang: as many loads that do not end as there are threads for loads keep the
// others out for a while and no longer, those of a start and those of the API.
func TestLoadsThatHang(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"hang0", "hang1", "start", "api"} {
		files[name+"/config.pbtxt"], files[name+"/1/x"] = echoConfig, ""
	}
	top := nesotest.Tree(t, files)
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := of(top)
		s.LoadThreads = 2
		m := manage(t, s, &nesotest.Echo{Name: "echo", OnLoad: func(_ context.Context, c backend.Config) error {
			if c.Name == "hang0" || c.Name == "hang1" {
				<-gate
			}
			return nil
		}})
		begun := make(chan []Failure, 1)
		go func() { begun <- m.LoadAll(t.Context(), []string{"hang0", "hang1"}) }()
		synctest.Wait()
		mustLoad(t, m, Request{Name: "api"})
		mustLoad(t, m, Request{Name: "start"})
		if m.ServesNow("hang0") || m.ServesNow("hang1") {
			t.Error("they do not hang")
		}
		close(gate)
		if failures := <-begun; len(failures) > 0 {
			t.Error(failures)
		}
		if !m.ServesNow("hang0") || !m.ServesNow("hang1") {
			t.Error("a load that was late is lost")
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
