package departing

import (
	"testing"

	"github.com/nesoserve/neso/internal/lifecycle/uses"
)

// TestDeparturesWait: a version that others have called goes after them; those that call
// each other do not wait.
func TestDeparturesWait(t *testing.T) {
	all := Set{}
	caller, again, callee := all.Add("caller", nil), all.Add("caller", nil), all.Add("callee", nil)
	g := uses.Graph{"caller": {"callee"}, "x": {"y"}, "y": {"x"}}
	all.Add("x", nil)
	all.Add("y", nil)
	for name, want := range map[string][]*Departure{"callee": {caller, again}, "caller": nil, "x": nil, "y": nil} {
		if got := all.Before(g, name); len(got) != len(want) || len(want) > 0 && (got[0] != want[0] || got[1] != want[1]) {
			t.Errorf("%s waits for %d, want %d", name, len(got), len(want))
		}
	}
	all.Remove("caller", caller)
	<-caller.Done()
	if got := all.Before(g, "callee"); len(got) != 1 || got[0] != again {
		t.Errorf("waits for %v", got)
	}
	all.Remove("caller", again)
	all.Remove("callee", callee)
	if len(all["caller"])+len(all["callee"]) > 0 || all.Pin("caller", "callee", -1) != nil {
		t.Error("left behind", all)
	}
}
