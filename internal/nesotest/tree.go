package nesotest

import (
	"os"
	"path/filepath"
	"testing"
)

// Tree writes files, given by slash-separated paths, below a new directory
// that the test's end removes, and returns the directory. A path that ends in
// a slash is an empty directory.
func Tree(t testing.TB, files map[string]string) string {
	t.Helper()
	top := t.TempDir()
	for name, text := range files {
		Put(t, top, name, text)
	}
	return top
}

// Put writes one file below top, or makes one directory.
func Put(t testing.TB, top, name, text string) {
	t.Helper()
	path := filepath.Join(top, filepath.FromSlash(name))
	dir := filepath.Dir(path)
	if name[len(name)-1] == '/' {
		dir = path
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if dir == path {
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
