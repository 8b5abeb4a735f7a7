package lifecycle

import (
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

// TestStepBackAfterItsPlan: that the model has been loaded anew, has left memory or has got
// another label between the request that is too much and the step back loses nothing; what
// an operator has said of weights and bounds meanwhile counts.
func TestStepBackAfterItsPlan(t *testing.T) {
	const config = echoConfig + "version_policy { all { } }\n"
	const rules = "labels: {stable: 1, canary: 2}\nweights: {stable: 1, canary: 1}\nstep_back: {from: canary, max_error_rate: 0.1}\n"
	files := map[string]string{"m/config.pbtxt": config, "m/rollout.yaml": rules, "m/1/x": "", "m/2/x": "", "m/3/x": ""}
	route := func(change string) func(*testing.T, *Manager, string) {
		return func(t *testing.T, m *Manager, _ string) {
			t.Helper()
			if err := m.Route(t.Context(), "m", []byte(change)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		between func(t *testing.T, m *Manager, top string)
		stepped bool
	}{
		"nothing": {func(*testing.T, *Manager, string) {}, true},
		"a load": {func(t *testing.T, m *Manager, top string) {
			nesotest.Put(t, top, "m/1/x", "changed")
			mustLoad(t, m, Request{Name: "m"})
		}, true},
		"an eviction": {func(t *testing.T, m *Manager, _ string) {
			if err := m.Evict(t.Context(), "m"); err != nil {
				t.Fatal(err)
			}
		}, true},
		"a label":                {route(`{"labels": {"other": 3}}`), true},
		"a label of the version": {route(`{"labels": {"canary": 3}}`), false},
		"weights":                {route(`{"weights": {"stable": 1, "canary": 1}}`), false},
		"a resume":               {route(`{"resume": true}`), false},
		"another file": {func(t *testing.T, m *Manager, top string) {
			nesotest.Put(t, top, "m/rollout.yaml", rules+"sticky: x-user\n")
			mustLoad(t, m, Request{Name: "m"})
		}, false},
		"an unload": {func(t *testing.T, m *Manager, _ string) {
			if err := m.UnloadAfter(t.Context(), "m", false); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			top := nesotest.Tree(t, files)
			m := start(t, of(top, "m"), &nesotest.Echo{Name: "echo"})
			old, _ := m.Routing("m")
			tc.between(t, m, top)
			m.StepBack("m", old.Plan, old.Live, "too many errors")
			mustLoad(t, m, Request{Name: "m", Back: true})
			now, serves := m.Routing("m")
			if !serves || (now.Plan.Stepped != nil) != tc.stepped || tc.stepped && now.Plan.Share(2) != 0 {
				t.Fatalf("stepped back: %v, want %v", now.Plan.Stepped, tc.stepped)
			}
			if tc.stepped && now.Plan.Stepped.Version != 2 {
				t.Error(now.Plan.Stepped)
			}
			if got := now.Live.Numbers(0).StepBacks[2]; got != map[bool]int64{true: 1}[tc.stepped] {
				t.Errorf("%d step backs are counted", got)
			}
			m.StepBack("m", old.Plan, old.Live, "once more")
			if again, _ := m.Routing("m"); tc.stepped && again.Plan.Stepped != now.Plan.Stepped {
				t.Error("stepped back twice")
			}
		})
	}
}
