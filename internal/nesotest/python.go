package nesotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// withNumpy holds the interpreters that have numpy: finding out takes a while.
var withNumpy sync.Map

// Python returns an interpreter with numpy: $NESO_PYTHON, or the
// .venv/bin/python of a directory above.
func Python(t testing.TB) string {
	t.Helper()
	candidates := []string{os.Getenv("NESO_PYTHON")}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		candidates = append(candidates, filepath.Join(dir, ".venv", "bin", "python"))
	}
	for _, path := range candidates {
		if path == "" {
			continue
		}
		if _, known := withNumpy.Load(path); known {
			return path
		}
		if exec.CommandContext(t.Context(), path, "-c", "import numpy").Run() == nil {
			withNumpy.Store(path, true)
			return path
		}
	}
	t.Fatalf("no interpreter with numpy among %q: run make, or set NESO_PYTHON", candidates)
	return ""
}
