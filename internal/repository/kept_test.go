package repository

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

// TestReadAs: what a model was is put in the place of what it is, unless that is the same
// or a manifest says what the model is.
func TestReadAs(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	top := nesotest.Tree(t, map[string]string{"m/config.pbtxt": "old", "m/1/x": ""})
	r, err := Open(Options{Paths: []string{top}})
	if err != nil {
		t.Fatal(err)
	}
	read := func() *Snapshot {
		t.Helper()
		s, err := r.Read(t.Context(), "m", "", nil, log)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(top, "m", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := read()
	was := old.File()
	if s, err := r.ReadAs(t.Context(), "m", was, log); err != nil || s != nil {
		t.Error("nothing has changed:", s, err)
	}
	write("config.pbtxt", "new")
	s, err := r.ReadAs(t.Context(), "m", was, log)
	if err != nil || s == nil || string(s.Config) != "old" || !s.HasConfig(was) || !s.Kept() || s.FromRequest() {
		t.Fatal(s, err)
	}
	if s.SameConfig(old) || read().SameConfig(s) || s.SameConfig(s) {
		t.Error("a configuration that storage has no more counts as the one that is there")
	}
	// Rules that cannot be read are a change as well.
	write("config.pbtxt", "old")
	if err := os.Mkdir(filepath.Join(top, "m", "rollout.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := r.ReadAs(t.Context(), "m", was, log); err != nil || s == nil || s.Kept() || s.Rollout != nil {
		t.Error(s, err)
	}
	if err := os.Remove(filepath.Join(top, "m", "rollout.yaml")); err != nil {
		t.Fatal(err)
	}
	write("config.pbtxt", "new")
	write(Manifest, "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437  config.pbtxt\n"+
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  1/x\n")
	if s, err := r.ReadAs(t.Context(), "m", was, log); err != nil || s != nil {
		t.Error("a model with a manifest is something else:", s, err)
	}
}
