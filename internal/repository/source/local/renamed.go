package local

import (
	"context"
	"slices"

	"github.com/nesoserve/neso/internal/repository/source"
)

// Renamed is a repository in which one directory's model is served under
// another name.
type Renamed struct {
	Repository
	directory, model string
}

// OpenRenamed opens path; the model in its sub-directory is served as model.
func OpenRenamed(path, directory, model string) (*Renamed, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	return &Renamed{*r, directory, model}, nil
}

// Model returns the name that the one directory's model is served under.
func (r *Renamed) Model() string { return r.model }

// List returns the names under which models are served, sorted.
func (r *Renamed) List(ctx context.Context) ([]string, error) {
	names, err := r.Repository.List(ctx)
	if i := slices.Index(names, r.directory); i >= 0 {
		names[i] = r.model
		slices.Sort(names)
	}
	return names, err
}

// Has reports whether a model is served under that name.
func (r *Renamed) Has(ctx context.Context, model string) (bool, error) {
	switch model {
	case r.model:
		model = r.directory
	case r.directory:
		return false, nil
	}
	return r.Repository.Has(ctx, model)
}

// Fetch returns the directory in place.
func (r *Renamed) Fetch(ctx context.Context, model string) (source.Directory, error) {
	if model != r.model {
		return r.Repository.Fetch(ctx, model)
	}
	d, err := r.Repository.Fetch(ctx, r.directory)
	d.Renamed = true
	return d, err
}

// Marks returns the marks of the directories, under the names they are served.
func (r *Renamed) Marks(ctx context.Context) (map[string]string, error) {
	marks, err := r.Repository.Marks(ctx)
	if mark, ok := marks[r.directory]; ok {
		delete(marks, r.directory)
		marks[r.model] = mark
	}
	return marks, err
}
