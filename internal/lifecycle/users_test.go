package lifecycle

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

// TestEnsemblesUnderChange: loads and unloads from all sides, of parts that fit and do
// not, end; what is loaded then serves, and nothing is claimed for ever.
func TestEnsemblesUnderChange(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": "",
		"e/config.pbtxt": ensembleConfig("a", "b"), "e/1/": "", "outer/config.pbtxt": ensembleConfig("e", "a"), "outer/1/": "",
	})
	m := start(t, of(top, "outer"), &nesotest.Echo{Name: "echo"})
	tagged := func(n int, of string) string {
		text := strings.Replace(echoJSON, `{`, `{"metric_tags":{"n":"`+strconv.Itoa(n)+`"},`, 1)
		return strings.ReplaceAll(text, "TYPE_FP32", of)
	}
	var wg sync.WaitGroup
	for w := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(w, 7))
			for n := range 40 {
				name := []string{"a", "b", "e", "outer"}[rng.IntN(4)]
				switch what := rng.IntN(6); {
				case what == 0:
					_ = m.UnloadAfter(t.Context(), name, rng.IntN(2) == 0)
				case what < 3 && (name == "a" || name == "b"):
					_ = m.Load(t.Context(), Request{Name: name, Config: tagged(n, []string{"TYPE_FP32", "TYPE_INT32"}[rng.IntN(2)])})
				case what == 3:
					_ = m.Load(t.Context(), Request{Name: name, Nested: true})
				default:
					_ = m.Load(t.Context(), Request{Name: name})
				}
				_, _ = ask(m, name, -1)
			}
		})
	}
	wg.Wait()
	m.loads.Wait() // those behind the loads of models
	settle(t, m)
	for _, name := range []string{"a", "b", "e", "outer"} {
		mustLoad(t, m, Request{Name: name})
	}
	wantServed(t, m, "outer", -1, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.claims.held)+len(m.claims.claimed) > 0 {
		t.Errorf("left behind: %v", m.claims)
	}
}
