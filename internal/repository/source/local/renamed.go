package local

import (
	"context"
	"maps"
	"slices"

	"github.com/nesoserve/neso/internal/repository/source"
)

// Renamed is a repository in which the models of some directories are served under
// other names.
type Renamed struct {
	Repository
	models      map[string]string // by directory
	directories map[string]string // by model
}

// OpenRenamed opens path; the model in each sub-directory that names has is served
// under the name that it has there.
func OpenRenamed(path string, names map[string]string) (*Renamed, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	n := &Renamed{Repository: *r, models: maps.Clone(names), directories: map[string]string{}}
	for directory, model := range names {
		n.directories[model] = directory
	}
	return n, nil
}

// Renames reports whether a directory's model is served under that name.
func (r *Renamed) Renames(model string) bool { return r.directories[model] != "" }

// List returns the names under which models are served, sorted.
func (r *Renamed) List(ctx context.Context) ([]string, error) {
	names, err := r.Repository.List(ctx)
	for i, name := range names {
		if model, ok := r.models[name]; ok {
			names[i] = model
		}
	}
	slices.Sort(names)
	return names, err
}

// Has reports whether a model is served under that name.
func (r *Renamed) Has(ctx context.Context, model string) (bool, error) {
	if directory, ok := r.directories[model]; ok {
		return r.Repository.Has(ctx, directory)
	}
	if _, ok := r.models[model]; ok {
		return false, nil
	}
	return r.Repository.Has(ctx, model)
}

// Fetch returns the directory in place.
func (r *Renamed) Fetch(ctx context.Context, model string) (source.Directory, error) {
	directory, ok := r.directories[model]
	if !ok {
		return r.Repository.Fetch(ctx, model)
	}
	d, err := r.Repository.Fetch(ctx, directory)
	d.Renamed = true
	return d, err
}

// Marks returns the marks of the directories, under the names they are served.
func (r *Renamed) Marks(ctx context.Context) (map[string]string, error) {
	marks, err := r.Repository.Marks(ctx)
	served := make(map[string]string, len(marks))
	for directory, mark := range marks {
		if model, ok := r.models[directory]; ok {
			directory = model
		}
		served[directory] = mark
	}
	return served, err
}
