package openvino

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/librarytest"
)

// TestErrorsAreThoseOfTheirModels: the library's last message is one for all
// threads.
func TestErrorsAreThoseOfTheirModels(t *testing.T) {
	d, _ := librarytest.Open(t, New(Options{Interpreter: librarytest.Interpreter}), nil)
	var loads sync.WaitGroup
	for i := range 8 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint("model", i), "1")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "model.onnx"), []byte("\x08\x07 not a model"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := backend.Config{Name: fmt.Sprint("model", i), Version: 1, Directory: filepath.Dir(dir), VersionDirectory: dir, Filename: "model.onnx"}
		loads.Go(func() {
			for range 50 {
				_, err := d.Load(t.Context(), cfg)
				if err == nil || !strings.Contains(err.Error(), "'model.onnx'") || strings.Contains(err.Error(), string(filepath.Separator)+"model") {
					t.Errorf("%s: %v", cfg.Name, err)
					return
				}
			}
		})
	}
	loads.Wait()
}
