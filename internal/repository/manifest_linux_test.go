package repository

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

// TestPipesInARepository: a pipe that nobody writes to holds up neither the
// manifest's check nor the configuration's.
func TestPipesInARepository(t *testing.T) {
	for name, want := range map[string]string{
		Manifest:       "manifest.sha256 cannot be read: it is no file",
		"config.pbtxt": "failed to read text proto from",
	} {
		top := nesotest.Tree(t, map[string]string{"m/1/model.py": "b"})
		if err := syscall.Mkfifo(filepath.Join(top, "m", name), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(Options{Paths: []string{top}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Read(t.Context(), "m", "", nil, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fileSum(t.Context(), file); err != nil {
		t.Error(err)
	}
}
