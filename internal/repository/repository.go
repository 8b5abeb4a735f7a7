package repository

import (
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository/source"
	"github.com/nesoserve/neso/internal/repository/source/local"
)

// Options say where models are, and how to read them.
type Options struct {
	Settings
	Paths []string
	// Patient opens object stores that cannot be reached: each use tries them anew.
	Patient bool
}

// Settings are the settings of the server for its repositories.
type Settings struct {
	// ConfigName is --model-config-name: `configs/<name>.pbtxt` is read instead of
	// `config.pbtxt` where it exists.
	ConfigName string
	// TempDir is where files of load requests are put; empty means the system's
	// place for temporary files.
	TempDir string
	// Readable lets other users read these files.
	Readable bool
	// CacheDir keeps what is downloaded from object stores from one start to the
	// next; empty means a temporary directory.
	CacheDir string
	// Namespacing allows models of one name in several repositories.
	Namespacing bool
	// RequireManifest takes only models with a Manifest.
	RequireManifest bool
}

// Repository is all model repositories of a server, seen as one.
type Repository struct {
	o Settings

	mu      sync.Mutex
	sources []source.Source // replaced, never changed
}

// Open opens every repository. It fails with the first path that is no repository.
// Paths are kept as a sorted set.
func Open(o Options) (*Repository, error) {
	r := &Repository{o: o.Settings}
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
		s, err := open(path, &o)
		if err != nil {
			_ = r.Close() // the first error says more
			return nil, err
		}
		r.sources = append(r.sources, s)
	}
	return r, nil
}

func open(path string, o *Options) (source.Source, error) {
	if scheme, _, ok := strings.Cut(path, "://"); ok && slices.Contains([]string{"s3", "gs", "as"}, scheme) {
		return openStore(path, o)
	}
	return local.Open(path)
}

// Close gives back what the repositories hold on this machine. No snapshot may
// be in use any more.
func (r *Repository) Close() error {
	var errs []error
	for _, s := range r.all() {
		if c, ok := s.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// remote is a source on another machine.
type remote interface {
	// Hold makes one listing answer all questions until the call of what it returns.
	Hold() (release func())
	// Away returns why the place could not be reached since it was opened, nil when it
	// was. stands says that what was kept of it stands in.
	Away() (stands bool, err error)
}

// Hold makes one listing of each object store answer all questions until the call
// of what it returns.
func (r *Repository) Hold() (release func()) {
	var all []func()
	for _, s := range r.all() {
		if s, ok := s.(remote); ok {
			all = append(all, s.Hold())
		}
	}
	return func() {
		for _, release := range all {
			release()
		}
	}
}

// Remote reports whether a repository is on another machine, which others may ask,
// too.
func (r *Repository) Remote() bool {
	return slices.ContainsFunc(r.all(), func(s source.Source) bool { _, ok := s.(remote); return ok })
}

// Away is a repository that could not be reached since the start.
type Away struct {
	Path string
	Err  error
	// Stands says that the models in the cache stand in for it.
	Stands bool
}

// Away returns the repositories that could not be reached since the start.
func (r *Repository) Away() []Away {
	var all []Away
	for _, s := range r.all() {
		if far, ok := s.(remote); ok {
			if stands, err := far.Away(); err != nil {
				all = append(all, Away{s.Path(), err, stands})
			}
		}
	}
	return all
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
	// Name is the model's name, with namespacing its key.
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
			count[r.key(s, n)]++
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
	if s, name := r.split(model); s != nil {
		if ok, err := s.Has(ctx, name); ok || err != nil {
			return s, err
		}
		return nil, backend.Errorf(backend.NotFound, "failed to poll model '%s': model not found in any model repository", model)
	}
	var found source.Source
	var failed error
	for _, s := range r.all() {
		ok, err := s.Has(ctx, model)
		failed = errors.Join(failed, err)
		if !ok {
			continue
		}
		if found != nil {
			return nil, backend.Errorf(backend.InvalidArg, "failed to poll model '%s': not unique across all model repositories", model)
		}
		found = s
	}
	// A repository that cannot be read keeps nobody from the models of another one.
	if found == nil && failed != nil {
		return nil, failed
	}
	if found == nil {
		return nil, backend.Errorf(backend.NotFound, "failed to poll model '%s': model not found in any model repository", model)
	}
	return found, nil
}

// CheckName refuses names that are empty or could lead out of a repository, with
// blanks around them or without.
func CheckName(model string) error {
	bare := strings.TrimSpace(model)
	if bare == "" {
		return backend.Errorf(backend.InvalidArg, "Model name cannot be empty. Please enter a valid name to deploy.")
	}
	if bare == "." || bare == ".." || strings.ContainsAny(model, "/\\\x00") || !filepath.IsLocal(model) {
		return backend.Errorf(backend.InvalidArg, "invalid model name '%s', model name must not contain path traversal characters", model)
	}
	return nil
}
