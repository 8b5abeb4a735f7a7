package local

import (
	"os"
	"path/filepath"
	"testing"
)

// TestListSaysWhy checks that a directory that cannot be read any more is told with the
// reason: a user who may not read it looks for something else otherwise.
func TestListSaysWhy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "models")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = r.List(t.Context())
	_, reason := os.ReadDir(path)
	if want := "failed to open directory " + path + ": " + cause(reason).Error(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
