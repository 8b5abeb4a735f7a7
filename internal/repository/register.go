package repository

import (
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository/source"
	"github.com/nesoserve/neso/internal/repository/source/local"
)

// Register adds a local repository while the server runs; the models in the
// directories that names has are served under the names that they have there.
// Models of a registered repository are loaded by request only.
func (r *Repository) Register(path string, names map[string]string) error {
	s, err := local.OpenRenamed(path, names)
	if err != nil {
		return backend.Errorf(backend.NotFound, "failed to register '%s', repository not found", path)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.sources, func(other source.Source) bool { return other.Path() == path }) {
		return backend.Errorf(backend.AlreadyExists, "model repository '%s' has already been registered", path)
	}
	for _, model := range names {
		if slices.ContainsFunc(r.sources, func(other source.Source) bool { o, ok := other.(*local.Renamed); return ok && o.Renames(model) }) {
			return backend.Errorf(backend.AlreadyExists, "failed to register '%s', there is a conflicting mapping for '%s'", path, model)
		}
	}
	r.sources = append(slices.Clone(r.sources), s) // readers go on with the old list
	return nil
}

// Unregister removes a repository that Register added. What is loaded of it
// stays.
func (r *Repository) Unregister(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.sources, func(s source.Source) bool { return s.Path() == path })
	if i < 0 {
		return backend.Errorf(backend.InvalidArg, "failed to unregister '%s', repository not found", path)
	}
	r.sources = slices.Delete(slices.Clone(r.sources), i, i+1)
	return nil
}

// all returns the present sources.
func (r *Repository) all() []source.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sources
}
