package routing

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/rollout"
)

func (s *stage) amend(change string) error {
	next, err := s.rules.Amend(s.Router, "m", []byte(change), s.configs())
	if err != nil {
		return err
	}
	s.rules = next
	return s.serve()
}

func (s *stage) wantLatest(t *testing.T, want int64) {
	t.Helper()
	if v, _ := s.asked(rollout.Ask{Version: -1}); v != want {
		t.Errorf("a request without a version goes to %d, want %d", v, want)
	}
}

// TestRulesOfFileAndRequests: what requests have said holds until the file changes.
func TestRulesOfFileAndRequests(t *testing.T) {
	const file = `{"weights": {"1": 1}}`
	s := newStage(t, file, version(t, 1), version(t, 2))
	s.wantLatest(t, 1)
	if err := s.amend(`{"weights": {"2": 1}}`); err != nil {
		t.Fatal(err)
	}
	s.wantLatest(t, 2)
	s.read(t, file) // as it was
	s.wantLatest(t, 2)
	s.read(t, file+" ")
	s.wantLatest(t, 1)
	s.read(t, "") // taken away
	s.wantLatest(t, 2)
	if s.HasRules("m") {
		t.Error("rules without a file")
	}
	s.rules = s.rules.Unloaded()
	s.read(t, file)
	s.wantLatest(t, 1)
}

func TestStepBack(t *testing.T) {
	const file = `{"weights": {"1": 90, "2": 10}, "step_back": {"from": "2", "max_error_rate": 0.1}}`
	s := newStage(t, file, version(t, 1), version(t, 2))
	old, _ := s.Routing("m")
	step := func(plan *rollout.Plan, live *rollout.Live) bool {
		next, made := s.rules.SteppedBack(plan, live, "too many errors")
		if s.rules = next; made {
			if err := s.serve(); err != nil {
				t.Fatal(err)
			}
		}
		return made
	}
	if step(old.Plan, rollout.NewLive()) || !step(old.Plan, old.Live) {
		t.Fatal("who may step back is not the rules' own")
	}
	if step(old.Plan, old.Live) {
		t.Error("a plan that has been replaced steps back")
	}
	for range 100 {
		s.wantLatest(t, 1)
	}
	if got := s.rules.Standing(2); !strings.HasSuffix(got, "Z: too many errors") || s.rules.Standing(1) != "" {
		t.Errorf("standing %q, %q", got, s.rules.Standing(1))
	}
	onItsWay, err := s.rules.Read("m", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if onItsWay.After(s.rules).stepped == nil {
		t.Error("a load of the same file forgets the step back")
	}
	changed, err := s.rules.Read("m", []byte(file+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if changed.After(s.rules).stepped != nil {
		t.Error("a changed file keeps the step back")
	}
	if err := s.amend(`{"resume": true}`); err != nil || s.rules.stepped != nil {
		t.Error("not resumed:", err)
	}
}

func TestRulesThatDoNotHold(t *testing.T) {
	s := newStage(t, `{"labels": {"stable": 1}}`, version(t, 1), version(t, 2))
	code := func(err error, want backend.Code, text string) {
		t.Helper()
		if e := backend.AsError(err); err == nil || e.Code != want || !strings.Contains(e.Message, text) {
			t.Errorf("%v, want %v: %s", err, want, text)
		}
	}
	_, err := s.rules.Read("m", []byte(`{"labels": `))
	code(err, backend.InvalidArg, "m/"+rollout.File)
	far, err := s.rules.Read("m", []byte(`{"labels": {"stable": 7}}`))
	if err != nil {
		t.Fatal(err)
	}
	code(far.CheckVersions("m", []int64{2, 1}), backend.InvalidArg, rollout.File+" of model 'm': labels.stable: version 7 is not loaded")
	code(far.Check(s.Router, "m", s.configs()), backend.InvalidArg, "labels.stable: version 7 is not loaded")
	code(s.amend(`{"labels": {"stable": 7}}`), backend.InvalidArg, "the rules of model 'm' would not hold")
	_, err = s.rules.Amend(s.Router, "m", []byte(`{}`), nil)
	code(err, backend.Unavailable, "no version that is ready")
	if err := s.rules.Check(s.Router, "m", s.configs()); err != nil {
		t.Error(err)
	}
	if v, ok := s.Labelled("m", "stable"); v != 1 || !ok {
		t.Error("a change that was refused has changed the rules:", v, ok)
	}
	s.versions = s.versions[1:] // a program has taken its version back
	if err := s.serve(); err == nil {
		t.Error("rules for a version that has gone hold")
	}
	s.wantLatest(t, 2)
}

// TestWeightsOfAnEnsembleOfSequences: what its steps are is asked of the router.
func TestWeightsOfAnEnsembleOfSequences(t *testing.T) {
	s := newStage(t, "", version(t, 1, func(c *modelconfig.Config) {
		c.Sequence = &modelconfig.SequenceBatching{Direct: &modelconfig.DirectStrategy{}}
		c.MaxBatchSize = 1
	}))
	shared, err := s.rules.Read("outer", []byte(`{"weights": {"1": 1, "2": 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	of := func(step string) *modelconfig.Config {
		return &modelconfig.Config{Ensemble: &modelconfig.Ensemble{Steps: []modelconfig.Step{{Model: step, Version: -1}}}}
	}
	if err := shared.Check(s.Router, "outer", map[int64]*modelconfig.Config{1: of("m"), 2: of("m")}); err == nil ||
		!strings.Contains(err.Error(), "an ensemble of a model with sequences") {
		t.Error(err)
	}
	if err := shared.Check(s.Router, "outer", map[int64]*modelconfig.Config{1: of("other"), 2: of("other")}); err != nil {
		t.Error(err)
	}
}
