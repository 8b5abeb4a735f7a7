package modelpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/internal/repository/layout"
)

// Directory returns the absolute path of a model's directory, or says what
// is there in place of one and what to give.
func Directory(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s does not exist: expected the directory of a model, such as models/digits", path)
	case err != nil:
		return "", fmt.Errorf("expected the directory of a model: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("%s is a file: expected the directory of a model, such as models/digits (neso config init FILE and neso serve "+
			"FILE take single model files)", path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", fmt.Errorf("expected the directory of a model: %w", err)
	}
	if layout.IsModel(path, entries) {
		return filepath.Abs(path)
	}
	var models []string
	for _, e := range entries {
		sub := filepath.Join(path, e.Name())
		if within, err := os.ReadDir(sub); err == nil && layout.IsModel(sub, within) {
			models = append(models, e.Name())
		}
	}
	if len(models) == 0 {
		return "", fmt.Errorf("%s is not the directory of a model: it has neither a %s nor a version (1, 2, ...)", path, layout.Filename)
	}
	first := filepath.Join(path, models[0])
	if n := len(models); n > shownModels {
		models = append(models[:shownModels], fmt.Sprintf("and %d more", n-shownModels))
	}
	return "", fmt.Errorf("%s is a model repository: give the directory of one of its models, such as %s (it has %s)", path, first,
		strings.Join(models, ", "))
}

const shownModels = 10
