package responsecache

import (
	"os"
	"path/filepath"
	"testing"
)

func TestContentIdentity(t *testing.T) {
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	model := func() string {
		dir := t.TempDir()
		put(dir+"/1/model.py", "a")
		put(dir+"/1/sub/2/data", "b")
		put(dir+"/labels.txt", "c")
		put(dir+"/2/model.py", "d")
		return dir
	}
	of := func(dir, config string) Identity {
		t.Helper()
		id, err := ContentIdentity(t.Context(), []byte(config), dir, dir+"/1")
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	want := of(model(), "{}")
	for name, c := range map[string]struct {
		change func(dir string)
		same   bool
	}{
		"nothing":          {func(string) {}, true},
		"byte code":        {func(d string) { put(d+"/1/__pycache__/model.pyc", "x") }, true},
		"another version":  {func(d string) { put(d+"/2/model.py", "x") }, true},
		"a new version":    {func(d string) { put(d+"/3/model.py", "x") }, true},
		"the model":        {func(d string) { put(d+"/1/model.py", "x") }, false},
		"a file below":     {func(d string) { put(d+"/1/sub/2/data", "x") }, false},
		"a shared file":    {func(d string) { put(d+"/labels.txt", "x") }, false},
		"a new file":       {func(d string) { put(d+"/1/new", "") }, false},
		"content moved":    {func(d string) { put(d+"/1/model.py", ""); put(d+"/1/sub/2/data", "ab") }, false},
		"a file that went": {func(d string) { _ = os.Remove(d + "/labels.txt") }, false},
	} {
		dir := model()
		c.change(dir)
		if got := of(dir, "{}"); (got == want) != c.same {
			t.Errorf("%s: same is %v, want %v", name, got == want, c.same)
		}
	}
	if of(model(), "{ }") == want {
		t.Error("the configuration does not count")
	}
	if one, other := NewIdentity(), NewIdentity(); one == other {
		t.Error("two loads with one identity")
	}
}
