// Package local serves models from directories of this machine.
package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository/layout"
	"github.com/nesoserve/neso/internal/repository/source"
)

// Repository is one --model-repository on a local file system.
type Repository struct{ path string }

// Open checks that path is a directory.
func Open(path string) (*Repository, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, backend.Errorf(backend.Internal, "failed to stat file %s: %v (expected a directory of models)", path, cause(err))
	case !info.IsDir():
		return nil, backend.Errorf(backend.InvalidArg, "repository path is not a valid directory: %s is a file (expected a directory of models)",
			path)
	}
	return &Repository{path: path}, nil
}

// cause is an error of the file system without the path.
func cause(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// Path returns the path as it was given.
func (r *Repository) Path() string { return r.path }

// List returns the names of the sub-directories, without those that begin with a
// dot: storage systems keep their own things there (`.git`, `..data` of mounted
// configuration).
func (r *Repository) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(r.path)
	if err != nil {
		return nil, backend.Errorf(backend.Internal, "failed to open directory %s: %v", r.path, cause(err))
	}
	var names []string
	for _, e := range entries {
		if layout.NoModel(e.Name()) {
			continue
		}
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 && isDir(filepath.Join(r.path, e.Name())) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Has reports whether there is a model directory of that name.
func (r *Repository) Has(_ context.Context, model string) (bool, error) {
	if !layout.MayLoad(model) || !filepath.IsLocal(model) {
		return false, nil
	}
	info, err := os.Stat(filepath.Join(r.path, model))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, backend.Errorf(backend.Internal, "failed to stat file %s", filepath.Join(r.path, model))
	}
	return info.IsDir(), nil
}

// Marks returns the names of List with the stamps of their directories. One
// that vanishes meanwhile is left out.
func (r *Repository) Marks(ctx context.Context) (map[string]string, error) {
	names, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	marks := make(map[string]string, len(names))
	for _, name := range names {
		stamp, err := source.StampTree(filepath.Join(r.path, name), nil)
		if err != nil {
			continue
		}
		marks[name] = strconv.FormatUint(uint64(stamp), 16)
	}
	return marks, nil
}

// Fetch returns the directory in place.
func (r *Repository) Fetch(ctx context.Context, model string) (source.Directory, error) {
	switch ok, err := r.Has(ctx, model); {
	case err != nil:
		return source.Directory{}, err
	case !ok:
		return source.Directory{}, backend.Errorf(backend.NotFound, "no directory '%s' in %s", model, r.path)
	}
	path, err := filepath.Abs(filepath.Join(r.path, model))
	if err != nil {
		return source.Directory{}, backend.Errorf(backend.Internal, "failed to stat file %s", filepath.Join(r.path, model))
	}
	return source.Directory{Path: path}, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
