package repository

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

// manifestOf writes what `sha256sum` writes of the files.
func manifestOf(files map[string]string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "%x  ./%s\n", sha256.Sum256([]byte(files[path])), path)
	}
	return b.String()
}

func TestManifest(t *testing.T) {
	whole := map[string]string{"config.pbtxt": "a", "1/model.py": "b", "1/deep/weights": "c"}
	for _, c := range []struct {
		name     string
		change   func(files map[string]string)
		required bool
		want     string // "" for complete
	}{
		{name: "whole", change: func(map[string]string) {}},
		{name: "whole and required", change: func(map[string]string) {}, required: true},
		{name: "none", change: func(f map[string]string) { delete(f, Manifest) }},
		{name: "none but required", change: func(f map[string]string) { delete(f, Manifest) }, required: true, want: "it has no manifest.sha256"},
		{name: "a file is missing", change: func(f map[string]string) {
			delete(f, "1/deep/weights")
		}, want: "names 1/deep/weights, which is not there"},
		{name: "a file is half there", change: func(f map[string]string) { f["1/model.py"] = "" }, want: "1/model.py has not the sum"},
		{name: "one too many", change: func(f map[string]string) { f["2/model.py"] = "old" }, want: "2/model.py is not in manifest.sha256"},
		{name: "caches and dots", change: func(f map[string]string) { f["1/__pycache__/x.pyc"], f[".nfs0"], f["1/.x"] = "", "", "" }},
		{name: "half a manifest", change: func(f map[string]string) {
			f[Manifest] = f[Manifest][:80]
		}, want: "names 1/deep/weigh, which is not there"},
		{name: "half a line", change: func(f map[string]string) {
			f[Manifest] = f[Manifest][:20]
		}, want: "line 1: expected 64 hexadecimal digits"},
		{name: "empty", change: func(f map[string]string) { f[Manifest] = "" }, want: "names no files"},
		{name: "leads out", change: func(f map[string]string) {
			f[Manifest] += strings.Repeat("0", 64) + "  ../x\n"
		}, want: "line 4: the path leads out"},
		{name: "written on Windows", change: func(f map[string]string) {
			f[Manifest] = strings.ReplaceAll(strings.ReplaceAll(f[Manifest], "./", `.\`), "/", `\`)
		}},
		{name: "written on Windows, escaped names of another file", change: func(f map[string]string) {
			f[Manifest] += `\` + strings.Repeat("0", 64) + `  ..\\x` + "\n"
		}, want: map[bool]string{false: `names ..\x, which is not there`, true: "line 4: the path leads out"}[filepath.Separator == '\\']},
		{name: "leads out as on Windows", change: func(f map[string]string) {
			f[Manifest] += strings.Repeat("0", 64) + `  ..\x` + "\n"
		}, want: "line 4: the path leads out"},
		{name: "names itself, has comments, stars and carriage returns", change: func(f map[string]string) {
			f[Manifest] = "# made by hand\r\n\n" + strings.ReplaceAll(strings.ReplaceAll(f[Manifest], "  ./", " *"), "\n",
				"\r\n") + strings.Repeat("0", 64) + "  manifest.sha256\n"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := maps.Clone(whole)
			files[Manifest] = manifestOf(whole)
			c.change(files)
			tree := map[string]string{}
			for path, content := range files {
				tree["m/"+path] = content
			}
			r, err := Open(Options{Paths: []string{nesotest.Tree(t, tree)}, Settings: Settings{RequireManifest: c.required}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Read(t.Context(), "m", "", nil, slog.New(slog.DiscardHandler))
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				s.Release()
				return
			}
			if err == nil || !Incomplete(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v (incomplete: %v), want %q", err, Incomplete(err), c.want)
			}
		})
	}
}

// TestManifestOfLinks: mounted configuration and shared versions are links.
func TestManifestOfLinks(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{".store/v1/model.py": "b", "m/config.pbtxt": "a"})
	if err := os.Symlink(filepath.Join("..", ".store", "v1"), filepath.Join(top, "m", "1")); err != nil {
		t.Skip("no links here: ", err)
	}
	nesotest.Put(t, top, "m/"+Manifest, manifestOf(map[string]string{"config.pbtxt": "a", "1/model.py": "b"}))
	if err := checkManifest(t.Context(), filepath.Join(top, "m"), true); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := checkManifest(ended, filepath.Join(top, "m"), true); err == nil || Incomplete(err) {
		t.Error("a server that stops goes on reading:", err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(manifestOf(map[string]string{"1/model.py": "b", "config.pbtxt": ""}))
	f.Add(strings.Repeat("0", 64) + "  ../../etc/passwd")
	f.Add(strings.Repeat("f", 64) + " *a\x00b\r\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		sums, err := parseManifest(strings.NewReader(text))
		if err == nil && len(sums) == 0 {
			t.Error("a manifest of nothing")
		}
		for path := range sums {
			if !filepath.IsLocal(path) {
				t.Errorf("%q leads out", path)
			}
		}
	})
}
