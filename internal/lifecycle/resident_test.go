package lifecycle

import (
	"fmt"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

// What serves is found without a look at all that has ever been loaded: where models come
// and go on demand, that is asked several times for each load.
func TestResidentsAreThoseThatServe(t *testing.T) {
	files := map[string]string{}
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprint("m", i))
		files[names[i]+"/config.pbtxt"], files[names[i]+"/1/x"] = echoConfig, ""
	}
	m := start(t, of(nesotest.Tree(t, files), names...), &nesotest.Echo{Name: "echo"})
	all := m.Residents()
	if len(all) != len(names) {
		t.Fatalf("%d of %d models", len(all), len(names))
	}
	for _, name := range names[1:] {
		if err := m.UnloadAfter(t.Context(), name, false); err != nil {
			t.Fatal(err)
		}
	}
	all = m.Residents()
	if len(all) != 1 || all[0].Name != names[0] || len(all[0].Models) != 1 || all[0].Fixed || all[0].Parts != nil {
		t.Errorf("got %+v", all)
	}
	if n := testing.AllocsPerRun(10, func() { m.Residents() }); n > 8 {
		t.Errorf("%v allocations for one of %d models", n, len(names))
	}
}
