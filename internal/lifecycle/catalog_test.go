package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/internal/lifecycle/uses"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/repository"
)

func ready() *entry { return &entry{versions: map[int64]*version{1: {state: Ready}}} }

func gone() *entry {
	return &entry{versions: map[int64]*version{1: {state: Unavailable, unwanted: true}}}
}

// TestNamesInNamespaces: which entries a model's name stands for.
func TestNamesInNamespaces(t *testing.T) {
	here := nesotest.Tree(t, map[string]string{"one/config.pbtxt": "", "both/config.pbtxt": ""})
	there := nesotest.Tree(t, map[string]string{"both/config.pbtxt": "", "moved/config.pbtxt": ""})
	r, err := repository.Open(repository.Options{
		Settings: repository.Settings{TempDir: t.TempDir(), Namespacing: true}, Paths: []string{here, there},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	at := func(path, name string) string { return path + "::" + name }
	c := catalog{repository: r, entries: map[string]*entry{
		at(here, "one"): ready(), at(here, "both"): ready(), at(there, "both"): ready(),
		at(here, "moved"): gone(), at(there, "moved"): ready(), at(here, "left"): gone(),
		at(there, "unread"): {unread: true},
	}}
	for name, want := range map[string]string{
		"one": at(here, "one"), at(there, "both"): at(there, "both"), "both": "both", "moved": at(there, "moved"),
		"left": at(here, "left"), "unread": "unread", "nobody": "nobody",
	} {
		if got := c.key(name); got != want {
			t.Errorf("%s stands for %q, want %q", name, got, want)
		}
	}
	if c.ambiguous("both") == nil || c.ambiguous("one") != nil || c.ambiguous("nobody") != nil {
		t.Error("not the name of two models alone is ambiguous")
	}
	if n := len(c.named("both")); n != 2 {
		t.Errorf("both names %d entries", n)
	}
}

// TestWhatAChangeAffects: ensembles come after those that they are made of, also those that
// wait for their parts.
func TestWhatAChangeAffects(t *testing.T) {
	away := gone()
	away.wants, away.returns = []string{"inner"}, &repository.Snapshot{}
	forgotten := gone()
	forgotten.wants = []string{"a"}
	c := catalog{entries: map[string]*entry{
		"a": ready(), "b": ready(), "inner": {versions: ready().versions, parts: []string{"a"}, wants: []string{"a"}},
		"outer": away, "forgotten": forgotten, "other": {versions: ready().versions, parts: []string{"b"}},
	}}
	if d := cmp.Diff([]string{"inner", "outer"}, c.affected([]string{"a"})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"outer"}, c.affected([]string{"a", "inner"})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"forgotten", "inner", "outer"}, c.wanters([]string{"a"})); d != "" {
		t.Error(d)
	}
	used, free := c.used([]string{"a", "outer"})
	if d := cmp.Diff([][]string{{"a"}, {"outer"}}, [][]string{used, free}); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(uses.Graph{"inner": {"a"}, "other": {"b"}}, c.graph()); d != "" {
		t.Error(d)
	}
}
