package checkpoint

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/tune/trial"
)

func example() *State {
	return &State{
		Neso: "1", Setting: Setting{Models: []string{"m"}, Load: map[string][]string{"m": {"-b", "1"}}, Configs: map[string]string{"m": "x"}},
		Goal: Goal{Text: "throughput", Models: []GoalOfModel{{Model: "m", Weight: 1, Objectives: map[trial.Metric]float64{trial.Throughput: 1}}}},
		Runs: []trial.Run{{ID: 1, Effort: 1, Levels: []trial.Level{{Load: trial.Load{Concurrency: 2, Batch: 1}, Models: map[string]*trial.Number{
			"m": {Throughput: trial.Stat{Mean: 5, Deviation: 1, N: 3}},
		}}}}, {ID: 2, Failure: "out of memory"}},
	}
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	dir := t.TempDir()
	if s, err := Load(dir); s != nil || err != nil {
		t.Fatal(s, err)
	}
	want := example()
	for range 2 {
		if err := want.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(dir)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left over: %v", entries)
	}
}

func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, Filename)
	if err := example().Save(dir); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "unexpected end"},
		{"cut", string(whole[:len(whole)/2]), "unexpected end"},
		{"no JSON", "model: x\n", "line 1: invalid character"},
		{"another type", strings.Replace(string(whole), `"runs": [`, `"runs": 5, "x": [`, 1), "runs"},
		{"nothing of a model", strings.Replace(string(whole), `"m": {
       "throughput"`, `"n": null, "m": {
       "throughput"`, 1), `no numbers of the model "n"`},
		{"of another model", strings.Replace(string(whole), `"m": {
       "throughput"`, `"n": {
       "throughput"`, 1), `no numbers of the model "m"`},
		{"from the future", strings.Replace(string(whole), `"version": 1`, `"version": 9`, 1), "version 9"},
	} {
		if c.text == string(whole) {
			t.Fatalf("%s: nothing was changed in %s", c.name, whole)
		}
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err := Load(dir); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--restart") {
			t.Errorf("%s: got %v, %v", c.name, s, err)
		}
	}
}

func TestSame(t *testing.T) {
	a, b := example().Setting, example().Setting
	if got := a.Same(&b); got != "" {
		t.Error(got)
	}
	b.Configs = map[string]string{"m": "y"}
	if got := a.Same(&b); got != "the configurations of the models" {
		t.Error(got)
	}
}
