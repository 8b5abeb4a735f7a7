package repository

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository/source"
	"github.com/nesoserve/neso/internal/repository/source/local"
)

// Options say where models are and which of their configurations to read.
type Options struct {
	Paths []string
	// ConfigName is --model-config-name: `configs/<name>.pbtxt` is read instead of
	// `config.pbtxt` where it exists.
	ConfigName string
	// TempDir is where files of load requests are put; empty means the system's
	// place for temporary files.
	TempDir string
	// Readable lets other users read these files.
	Readable bool
}

// Repository is all model repositories of a server, seen as one.
type Repository struct {
	configName string
	tempDir    string
	readable   bool

	mu      sync.Mutex
	sources []source.Source // replaced, never changed
}

// Open opens every repository; it fails with the first path that is none.
// Paths are kept as a sorted set.
func Open(o Options) (*Repository, error) {
	r := &Repository{configName: o.ConfigName, tempDir: o.TempDir, readable: o.Readable}
	seen := map[string]bool{}
	for _, path := range slices.Sorted(slices.Values(o.Paths)) {
		// The same directory under two spellings would make each of its models a
		// duplicate of itself.
		key := filepath.Clean(path)
		if real, err := filepath.EvalSymlinks(path); err == nil {
			if real, err = filepath.Abs(real); err == nil {
				key = real
			}
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		s, err := open(path)
		if err != nil {
			return nil, err
		}
		r.sources = append(r.sources, s)
	}
	return r, nil
}

func open(path string) (source.Source, error) {
	for scheme, flag := range map[string]string{"gs": "GCS", "s3": "S3", "as": "AZURE_STORAGE"} {
		if strings.HasPrefix(path, scheme+"://") {
			return nil, backend.Errorf(backend.Unsupported, "%s:// file-system not supported. To enable, build with -DTRITON_ENABLE_%s=ON.", scheme, flag)
		}
	}
	return local.Open(path)
}

// Paths returns the repositories' paths: those of Open, sorted, then those
// registered.
func (r *Repository) Paths() []string {
	sources := r.all()
	paths := make([]string, len(sources))
	for i, s := range sources {
		paths[i] = s.Path()
	}
	return paths
}

// Entry is one name found in the repositories.
type Entry struct {
	Name string
	// Duplicate says that two or more repositories have a directory of that name,
	// so that it is not clear which one is meant.
	Duplicate bool
}

// List returns the names in all repositories, sorted. Repositories that cannot
// be read are reported in the error; the names of the others are returned all
// the same.
func (r *Repository) List(ctx context.Context) ([]Entry, error) {
	count := map[string]int{}
	var failed []error
	for _, s := range r.all() {
		names, err := s.List(ctx)
		if err != nil {
			failed = append(failed, err)
		}
		for _, n := range names {
			count[n]++
		}
	}
	entries := make([]Entry, 0, len(count))
	for _, n := range slices.Sorted(maps.Keys(count)) {
		entries = append(entries, Entry{Name: n, Duplicate: count[n] > 1})
	}
	return entries, errors.Join(failed...)
}

// find returns the one source that holds the model.
func (r *Repository) find(ctx context.Context, model string) (source.Source, error) {
	var found source.Source
	for _, s := range r.all() {
		ok, err := s.Has(ctx, model)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if found != nil {
			return nil, backend.Errorf(backend.InvalidArg, "failed to poll model '%s': not unique across all model repositories", model)
		}
		found = s
	}
	if found == nil {
		return nil, backend.Errorf(backend.NotFound, "model '%s' is not in any model repository", model)
	}
	return found, nil
}

// CheckName refuses names that are empty or could lead out of a repository.
func CheckName(model string) error {
	if model == "" {
		return backend.Errorf(backend.InvalidArg, "Model name cannot be empty. Please enter a valid name to deploy.")
	}
	if model == "." || model == ".." || strings.ContainsAny(model, "/\\\x00") || !filepath.IsLocal(model) {
		return backend.Errorf(backend.InvalidArg, "invalid model name '%s', model name must not contain path traversal characters", model)
	}
	return nil
}
