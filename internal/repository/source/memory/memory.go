// Package memory turns the files of a load request into a model directory of
// their own: backends read directories, so the files get a private temporary
// one that lives as long as the model.
package memory

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository/source"
	"github.com/nesoserve/neso/internal/scratch"
)

// Write makes a directory below parent (empty: the system's place for
// temporary files) with the given files, whose names are slash-separated paths
// relative to the model's directory; as with Triton they may begin with a slash.
// Others than this user may read them if readable says so.
func Write(parent, model string, files map[string][]byte, readable bool) (source.Directory, error) {
	names := make([]string, 0, len(files))
	for name := range files {
		if err := check(name); err != nil {
			return source.Directory{}, err
		}
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	if parent == "" {
		parent = os.TempDir()
	}
	made, err := scratch.MakeIn(parent, "neso-model-")
	if err != nil {
		return source.Directory{}, backend.Errorf(backend.Internal, "failed to make a directory for the files of model '%s': %v", model, err)
	}
	release, top := made.Remove, made.Path
	// The last element is the model's name, as it is in a repository: backends and
	// models may look at it.
	dir := filepath.Join(top, model)
	var others os.FileMode
	if readable {
		others = 0o055
		if err := os.Chmod(top, 0o755); err != nil {
			return source.Directory{}, errors.Join(err, release())
		}
	}
	if err := write(dir, names, files, others); err != nil {
		_ = release() // the first error says more
		return source.Directory{}, backend.Errorf(backend.Internal, "failed to write the files of model '%s': %v", model, err)
	}
	return source.Directory{Path: dir, Release: release}, nil
}

func write(dir string, names []string, files map[string][]byte, others os.FileMode) error {
	if err := os.Mkdir(dir, 0o700|others); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
		path := filepath.FromSlash(relative(name))
		if err := root.MkdirAll(filepath.Dir(path), 0o700|others); err != nil {
			return err
		}
		if err := root.WriteFile(path, files[name], 0o600|others&^0o011); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// relative returns the name without the slashes that it may begin with.
func relative(name string) string { return strings.TrimLeft(name, "/") }

// check refuses names that leave the model's directory or that another system
// would read as a different path.
func check(name string) error {
	if inside := relative(name); strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(filepath.FromSlash(inside)) ||
		strings.HasSuffix(name, "/") || filepath.Clean(inside) == "." {
		return backend.Errorf(backend.InvalidArg, "invalid file name '%s', it must be a path relative to the model's directory", name)
	}
	return nil
}
