package routing

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// version opens a version of a model, which the test's end closes at the latest.
func version(t testing.TB, number int64, change ...func(*modelconfig.Config)) *model.Model {
	t.Helper()
	c := &modelconfig.Config{
		Name: "m", Backend: "echo",
		Inputs:  []modelconfig.Input{{Name: "IN", Datatype: tensor.FP32, Dims: tensor.Shape{-1}}},
		Outputs: []modelconfig.Output{{Name: "OUT", Datatype: tensor.FP32, Dims: tensor.Shape{-1}}},
	}
	for _, f := range change {
		f(c)
	}
	echo := &nesotest.Echo{Name: "echo"}
	b, err := echo.Driver().Open(t.Context(), nil, backend.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	pool := memory.New(memory.Options{})
	v := c.ToBackend(t.TempDir(), t.TempDir(), number)
	v.Instances = []backend.InstanceConfig{{Name: "m_0_0", Kind: "KIND_CPU"}}
	m, err := model.Open(t.Context(), model.Options{Config: c, BackendConfig: v, Backend: b, Allocator: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shut(t, m)
		_ = b.Close()
		pool.Close()
	})
	return m
}

func shut(t testing.TB, m *model.Model) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// stage is a router that serves one model, m, under rules.
type stage struct {
	*Router
	publish  func(*Table)
	rules    Rules
	versions []*model.Model
}

func newStage(t testing.TB, file string, versions ...*model.Model) *stage {
	t.Helper()
	s := &stage{versions: versions}
	s.Router, s.publish = New()
	s.read(t, file)
	return s
}

// read loads the model anew with that file of rules.
func (s *stage) read(t testing.TB, file string) {
	t.Helper()
	var text []byte
	if file != "" {
		text = []byte(file)
	}
	next, err := s.rules.Read("m", text)
	if err != nil {
		t.Fatal(err)
	}
	s.rules = next.After(s.rules)
	if err := s.serve(); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) serve() error {
	models := s.Table().Models()
	served, err := s.rules.Serve(s.Router, "m", s.versions)
	models["m"] = served
	s.publish(NewTable(models))
	return err
}

// configs are those of the versions.
func (s *stage) configs() map[int64]*modelconfig.Config {
	all := map[int64]*modelconfig.Config{}
	for _, v := range s.versions {
		all[v.Version()] = v.Config()
	}
	return all
}

// asked returns which version a request goes to, 0 for none, and why.
func (s *stage) asked(ask rollout.Ask) (version int64, why string) {
	v, route := s.PinAsked("m", &ask)
	if route != nil {
		why = route.Reason.String()
	}
	if v == nil {
		return 0, why
	}
	defer v.Unpin()
	return v.Version(), why
}

// field is a request whose header has one value.
type field string

func (f field) Field(string) string { return string(f) }

func TestVersionThatARequestGoesTo(t *testing.T) {
	one, two, three := version(t, 1), version(t, 2), version(t, 3)
	const rules = `{"labels": {"stable": 1, "canary": 3}, "weights": {"2": 1}}`
	for _, c := range []struct {
		name, file string
		ask        rollout.Ask
		want       int64
		why        string
	}{
		{"the latest", "", rollout.Ask{Version: -1}, 3, ""},
		{"a number", "", rollout.Ask{Version: 2}, 2, ""},
		{"a number that is not there", "", rollout.Ask{Version: 9}, 0, ""},
		{"a label where nobody has given any", "", rollout.Ask{Version: -1, Label: "stable"}, 0, ""},
		{"the weights", rules, rollout.Ask{Version: -1}, 2, "weight"},
		{"a number under rules", rules, rollout.Ask{Version: 1}, 1, "version"},
		{"a label", rules, rollout.Ask{Version: -1, Label: "canary"}, 3, "label"},
		{"another label", rules, rollout.Ask{Version: -1, Label: "stable"}, 1, "label"},
		{"a label that is not there", rules, rollout.Ask{Version: -1, Label: "nope"}, 0, ""},
		{"labels alone", `{"labels": {"stable": 1}}`, rollout.Ask{Version: -1}, 3, "default"},
		{"what was chosen before", rules, rollout.Ask{Version: 3, Chosen: true, Reason: rollout.BySticky}, 3, "sticky"},
		{"what was chosen and has gone", rules, rollout.Ask{Version: 9, Chosen: true, Reason: rollout.BySticky}, 2, "weight"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c.file, one, two, three)
			if v, why := s.asked(c.ask); v != c.want || why != c.why {
				t.Errorf("version %d because of %q, want %d, %q", v, why, c.want, c.why)
			}
		})
	}
}

func TestStickyRequestsStay(t *testing.T) {
	s := newStage(t, `{"weights": {"1": 50, "2": 50}, "sticky": "user"}`, version(t, 1), version(t, 2))
	seen := map[int64]int{}
	for n := range 200 {
		ask := rollout.Ask{Version: -1, Fields: field(strings.Repeat("u", n+1))}
		first, why := s.asked(ask)
		if again, _ := s.asked(ask); again != first {
			t.Fatalf("request %d went to version %d, then to %d", n, first, again)
		}
		if want := "sticky"; why != want {
			t.Fatalf("request %d: %q, want %q", n, why, want)
		}
		if settled := s.Choose("m", ask); settled.Version != first || !settled.Chosen {
			t.Fatalf("request %d: chosen %+v, asked %d", n, settled, first)
		}
		seen[first]++
	}
	if seen[1] < 50 || seen[2] < 50 {
		t.Errorf("shares %v of 200", seen)
	}
}

func TestNothingServes(t *testing.T) {
	r, _ := New()
	ask := rollout.Ask{Version: -1}
	if v := r.Pin("m", -1); v != nil {
		t.Error("pinned", v)
	}
	if v, route := r.PinAsked("m", &ask); v != nil || route != nil {
		t.Error("pinned", v, route)
	}
	if got := r.Choose("m", ask); got != ask {
		t.Errorf("chosen %+v", got)
	}
	_, labelled := r.Labelled("m", "x")
	_, serves := r.Routing("m")
	if labelled || serves || r.HasRules("m") || r.ServesNow("m") ||
		r.Find("m", 1) != nil || r.Table().Config("m", -1) != nil || len(r.Serving()) > 0 {
		t.Error("something is said of a model that does not serve")
	}
}

// TestPinsFollowTheTable: requests that come while versions take each other's place find
// one, and none is closed under a pin.
func TestPinsFollowTheTable(t *testing.T) {
	s := newStage(t, "", version(t, 1))
	ruled := newStage(t, `{"labels": {"x": 1}}`, s.versions...)
	done := make(chan struct{})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v := s.Pin("m", -1)
				w, route := ruled.PinAsked("m", &rollout.Ask{Version: -1, Label: "x"})
				if v == nil || w == nil || route == nil {
					t.Error("no version", v, w, route)
					return
				}
				v.Unpin()
				w.Unpin()
			}
		})
	}
	for range 50 {
		old := s.versions[0]
		s.versions = []*model.Model{version(t, 1)}
		ruled.versions = s.versions
		if err := s.serve(); err != nil {
			t.Error(err)
		}
		if err := ruled.serve(); err != nil {
			t.Error(err)
		}
		shut(t, old)
	}
	close(done)
	asking.Wait()
}

func TestPinDoesNotAllocate(t *testing.T) {
	s := newStage(t, "", version(t, 1), version(t, 2))
	if n := testing.AllocsPerRun(100, func() {
		s.Pin("m", 1).Unpin()
		s.Pin("m", -1).Unpin()
		v, _ := s.PinAsked("m", &rollout.Ask{Version: -1})
		v.Unpin()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRoutingIsDescribed(t *testing.T) {
	s := newStage(t, `{"labels": {"stable": 1}}`, version(t, 1), version(t, 2))
	r, serves := s.Routing("m")
	if d := cmp.Diff([]int64{1, 2}, r.Versions); d != "" || !serves || r.Plan.Primary != 2 || r.Live == nil {
		t.Error(d, serves, r)
	}
	if v, ok := s.Labelled("m", "stable"); v != 1 || !ok || !s.HasRules("m") {
		t.Error(v, ok)
	}
	if d := cmp.Diff([]string{"m"}, s.Serving()); d != "" {
		t.Error(d)
	}
	for _, v := range s.versions {
		if gone, err := s.Ready("m", -1, v); gone || err != nil {
			t.Error(gone, err)
		}
	}
	s.publish(NewTable(nil))
	shut(t, s.versions[0])
	if gone, err := s.Ready("m", 1, s.versions[0]); !gone || err == nil {
		t.Error("a version that has gone is ready:", gone, err)
	}
}
