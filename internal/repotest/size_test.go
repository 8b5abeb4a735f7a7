package repotest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	maxFile    = 500
	maxTests   = 800 // of a file of tests
	maxPackage = 4000
)

// exempt lists larger files and packages, with the reason.
var exempt = map[string]string{
	"internal/inferencepb":  "generated",
	"internal/cli/table.go": "one table: the options of neso serve, a row each",

	"internal/dashboard/assets/main.js":   "generated",
	"internal/dashboard/assets/style.css": "generated",

	"include/triton/core/tritonserver.h": "one header in the interface that it is of",
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// sources calls visit for each hand-written source file, path relative to the
// root.
func sources(t *testing.T, visit func(path string, text []byte)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, path)
		name := d.Name()
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "dist" || name == "build" ||
				name == "__pycache__" || name == "node_modules" || name == "target") {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go", ".py", ".c", ".h", ".cc", ".cpp", ".hpp", ".rs", ".java", ".js", ".mjs", ".ts", ".css", ".html", ".sh", ".proto":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(rel), text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFileAndPackageSize(t *testing.T) {
	lines := map[string]int{}
	sources(t, func(path string, text []byte) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if exempt[dir] != "" || exempt[path] != "" {
			return
		}
		n := bytes.Count(text, []byte("\n"))
		tests := strings.HasSuffix(path, "_test.go") || strings.HasPrefix(filepath.Base(path), "test_") ||
			strings.HasSuffix(path, "Test.java") || strings.HasSuffix(path, ".test.ts")
		most := maxFile
		if tests {
			most = maxTests
		} else {
			lines[dir] += n
		}
		if n > most {
			t.Errorf("%s has %d lines, at most %d: look for the second subject", path, n, most)
		}
	})
	for dir, n := range lines {
		if n > maxPackage {
			t.Errorf("%s has %d lines, at most %d", dir, n, maxPackage)
		}
	}
	if len(lines) < 10 {
		t.Errorf("saw only %d folders: the walk is broken", len(lines))
	}
}

// TestForbiddenNames: files are split by subject, not by kind.
func TestForbiddenNames(t *testing.T) {
	for _, bad := range []string{"utils.go", "types.go", "helpers.go", "common.go", "misc.go"} {
		sources(t, func(path string, _ []byte) {
			if filepath.Base(path) == bad {
				t.Errorf("%s: name the subject instead", path)
			}
		})
	}
}

// TestNothingPutOff: work that is left belongs into an issue.
func TestNothingPutOff(t *testing.T) {
	words := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X:"}
	sources(t, func(path string, text []byte) {
		for _, w := range words {
			if bytes.Contains(text, []byte(w)) {
				t.Errorf("%s contains %s", path, w)
			}
		}
	})
}

// TestPrivateWords: names whose meaning a reader would have to be told give way to words
// of docs/glossary.md.
func TestPrivateWords(t *testing.T) {
	words := regexp.MustCompile(`\b(forsaken|errands?|callSpell|layDown|Laned|laned|crowd|seats?|wishes)\b`)
	sources(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, w := range words.FindAll(text, -1) {
			t.Errorf("%s: %s is nobody else's word", path, w)
		}
	})
}
