package repository

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
)

// tree writes files below a new directory and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	top := t.TempDir()
	for name, text := range files {
		put(t, filepath.Join(top, name), text)
	}
	return top
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open1(t *testing.T, o Options) *Repository {
	t.Helper()
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantError(t *testing.T, err error, code backend.Code, text string) {
	t.Helper()
	var e *backend.Error
	if !errors.As(err, &e) || e.Code != code || e.Message != text {
		t.Errorf("got %v (%T), want %v: %s", err, err, code, text)
	}
}

func TestOpenPaths(t *testing.T) {
	top := tree(t, map[string]string{"file": "", "a/m/1/x": "", "b/n/1/x": ""})
	a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
	r := open1(t, Options{Paths: []string{b, a, a, a + "/"}})
	if d := cmp.Diff(r.Paths(), []string{a, b}); d != "" {
		t.Error(d)
	}
	missing := filepath.Join(top, "missing")
	_, err := Open(Options{Paths: []string{missing}})
	wantError(t, err, backend.Internal, "failed to stat file "+missing+": no such file or directory (expected a directory of models)")
	_, err = Open(Options{Paths: []string{filepath.Join(top, "file")}})
	wantError(t, err, backend.InvalidArg, "repository path is not a valid directory: "+filepath.Join(top, "file")+
		" is a file (expected a directory of models)")
}

func TestListFindsDuplicates(t *testing.T) {
	a := tree(t, map[string]string{"m/config.pbtxt": "", "n/1/x": "", "readme.txt": "", ".git/x": ""})
	b := tree(t, map[string]string{"m/1/x": "", "k/1/x": ""})
	if err := os.Symlink(filepath.Join(b, "k"), filepath.Join(a, "linked")); err != nil {
		t.Fatal(err)
	}
	r := open1(t, Options{Paths: []string{a, b}})
	got, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{{Name: "k"}, {Name: "linked"}, {Name: "m", Duplicate: true}, {Name: "n"}}
	if d := cmp.Diff(got, want); d != "" {
		t.Error(d)
	}
	_, err = r.Read(t.Context(), "m", "", nil, slog.New(slog.DiscardHandler))
	wantError(t, err, backend.InvalidArg, "failed to poll model 'm': not unique across all model repositories")
}

func TestCheckName(t *testing.T) {
	wantError(t, CheckName(""), backend.InvalidArg, "Model name cannot be empty. Please enter a valid name to deploy.")
	wantError(t, CheckName(" \t\n "), backend.InvalidArg, "Model name cannot be empty. Please enter a valid name to deploy.")
	for _, name := range []string{"..", ".", " ..", ".. ", "../x", "a/b", `a\b`, "/etc", "a\x00b"} {
		wantError(t, CheckName(name), backend.InvalidArg, "invalid model name '"+name+"', model name must not contain path traversal characters")
	}
	for _, name := range []string{"m", "a..b", "m.onnx", "ünï", "a b", "...x"} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestRead(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	top := tree(t, map[string]string{
		"m/config.pbtxt": "name: \"m\"", "m/configs/small.pbtxt": "small", "m/1/model.py": "", "m/12/model.py": "", "m/02/model.py": "",
		"m/warmup/x": "", "m/labels.txt": "", "bare/1/model.py": "",
	})
	read := func(t *testing.T, r *Repository, name, config string, files map[string][]byte) *Snapshot {
		t.Helper()
		s, err := r.Read(t.Context(), name, config, files, log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Release)
		return s
	}
	r := open1(t, Options{Paths: []string{top}})
	named := open1(t, Options{Paths: []string{top}, Settings: Settings{ConfigName: "small"}})
	t.Run("plain", func(t *testing.T) {
		s := read(t, r, "m", "", nil)
		if d := cmp.Diff(s.Versions, []int64{1, 12}); d != "" {
			t.Error(d)
		}
		if string(s.Config) != `name: "m"` || filepath.Base(s.ConfigPath) != "config.pbtxt" {
			t.Errorf("config %q from %s", s.Config, s.ConfigPath)
		}
		if got := s.VersionDirectory(12); got != filepath.Join(s.Directory, "12") {
			t.Error(got)
		}
	})
	t.Run("named config", func(t *testing.T) {
		if s := read(t, named, "m", "", nil); string(s.Config) != "small" {
			t.Errorf("%q", s.Config)
		}
		if s := read(t, named, "bare", "", nil); s.Config != nil {
			t.Errorf("%q", s.Config)
		}
	})
	t.Run("config override", func(t *testing.T) {
		if s := read(t, r, "m", "{}", nil); string(s.Config) != "{}" || s.ConfigPath != "" {
			t.Errorf("%q from %q", s.Config, s.ConfigPath)
		}
	})
	t.Run("missing", func(t *testing.T) {
		_, err := r.Read(t.Context(), "nope", "", nil, log)
		wantError(t, err, backend.NotFound, "failed to poll model 'nope': model not found in any model repository")
	})
	t.Run("files", func(t *testing.T) {
		tmp := t.TempDir()
		r := open1(t, Options{Paths: []string{top}, Settings: Settings{TempDir: tmp}})
		s, err := r.Read(t.Context(), "over", "{}", map[string][]byte{"3/model.py": []byte("x"), "/4/model.py": []byte("y"), "a/b": nil}, log)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s.Versions, []int64{3, 4}); d != "" {
			t.Error(d)
		}
		if text, err := os.ReadFile(filepath.Join(s.VersionDirectory(3), "model.py")); err != nil || string(text) != "x" {
			t.Error(text, err)
		}
		s.Retain()
		s.Release()
		if _, err := os.Stat(s.Directory); err != nil {
			t.Error("released too early:", err)
		}
		s.Release()
		if left, _ := os.ReadDir(tmp); len(left) != 0 {
			t.Error("left behind:", left)
		}
		for _, name := range []string{"../x", "/../x", "/", "a/../../x", "", "a/", `a\..\..\x`, "a\x00"} {
			_, err := r.Read(t.Context(), "over", "{}", map[string][]byte{name: nil}, log)
			wantError(t, err, backend.InvalidArg, "invalid file name '"+name+"', it must be a path relative to the model's directory")
		}
		// A file where a directory is needed.
		if _, err := r.Read(t.Context(), "over", "{}", map[string][]byte{"a": nil, "a/b": nil}, log); err == nil {
			t.Error("no error")
		}
		if left, _ := os.ReadDir(tmp); len(left) != 0 {
			t.Error("left behind:", left)
		}
		_, err = r.Read(t.Context(), "over", "", map[string][]byte{"1/x": nil}, log)
		wantError(t, err, backend.InvalidArg, "override files of model 'over' need the parameter 'config' too")
	})
}

func TestChangeDetection(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	later := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		change       func(t *testing.T, dir string)
		config       bool // SameConfig wanted
		one, two     bool // SameVersion wanted
		files        bool // SameFiles of version 1 wanted
		configByCall string
	}{
		"nothing": {change: func(*testing.T, string) {}, config: true, one: true, two: true, files: true},
		"cache written": {change: func(t *testing.T, dir string) {
			put(t, dir+"/1/__pycache__/x.pyc", "x")
		}, config: true, one: true, two: true, files: true},
		"version touched":   {change: func(t *testing.T, dir string) { touch(t, dir+"/2/model", later) }, config: true, one: true, files: true},
		"file added":        {change: func(t *testing.T, dir string) { put(t, dir+"/1/sub/extra", "") }, config: true, two: true},
		"file removed":      {change: func(_ *testing.T, dir string) { _ = os.Remove(dir + "/1/model") }, config: true, two: true},
		"labels changed":    {change: func(t *testing.T, dir string) { put(t, dir+"/labels.txt", "other") }, one: true, two: true},
		"config changed":    {change: func(t *testing.T, dir string) { put(t, dir+"/config.pbtxt", "other") }, one: true, two: true, files: true},
		"config touched":    {change: func(t *testing.T, dir string) { touch(t, dir+"/config.pbtxt", later) }, one: true, two: true, files: true},
		"config overridden": {change: func(*testing.T, string) {}, configByCall: "{}", one: true, two: true, files: true},
	} {
		t.Run(name, func(t *testing.T) {
			top := tree(t, map[string]string{"m/config.pbtxt": "c", "m/labels.txt": "l", "m/1/model": "1", "m/2/model": "2"})
			r := open1(t, Options{Paths: []string{top}})
			old, err := r.Read(t.Context(), "m", "", nil, log)
			if err != nil {
				t.Fatal(err)
			}
			defer old.Release()
			tc.change(t, filepath.Join(top, "m"))
			s, err := r.Read(t.Context(), "m", tc.configByCall, nil, log)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			got := []bool{s.SameConfig(old), s.SameVersion(old, 1), s.SameVersion(old, 2), s.SameFiles(old, 1)}
			if d := cmp.Diff(got, []bool{tc.config, tc.one, tc.two, tc.files}); d != "" {
				t.Error("got -, want +\n", d)
			}
		})
	}
}

func touch(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}
