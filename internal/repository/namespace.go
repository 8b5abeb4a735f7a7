package repository

import (
	"context"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository/source"
)

// separator stands between a namespace and a model's name in a key.
const separator = "::"

// key returns the name by which the server knows a model of a repository. With
// namespacing it begins with the namespace, which is the repository.
func (r *Repository) key(s source.Source, model string) string {
	if !r.o.Namespacing {
		return model
	}
	return s.Path() + separator + model
}

// Namespacing reports whether models of one name may be in several repositories.
func (r *Repository) Namespacing() bool { return r.o.Namespacing }

// Unknown is the code of the error for a model that is not known, as with the peer. A nil
// Repository knows no namespaces.
func (r *Repository) Unknown() backend.Code {
	if r != nil && r.Namespacing() {
		return backend.InvalidArg
	}
	return backend.NotFound
}

// Split takes a key apart. The namespace is empty without namespacing, and for
// what is no key.
func (r *Repository) Split(key string) (namespace, model string) {
	s, model := r.split(key)
	if s == nil {
		return "", key
	}
	return s.Path(), model
}

func (r *Repository) split(key string) (source.Source, string) {
	if r.o.Namespacing {
		for _, s := range r.all() {
			if model, ok := strings.CutPrefix(key, s.Path()+separator); ok {
				return s, model
			}
		}
	}
	return nil, key
}

// ResolveAll returns the keys of all models that are called name. Keys are
// returned as they are.
func (r *Repository) ResolveAll(ctx context.Context, name string) ([]string, error) {
	if s, _ := r.split(name); s != nil || !r.o.Namespacing {
		return []string{name}, nil
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	var keys []string
	for _, s := range r.all() {
		ok, err := s.Has(ctx, name)
		if err != nil {
			return nil, err
		}
		if ok {
			keys = append(keys, r.key(s, name))
		}
	}
	if len(keys) == 0 {
		return nil, backend.Errorf(backend.NotFound, "failed to poll model '%s': model not found in any model repository", name)
	}
	return keys, nil
}

// Resolve returns the key of the model that is called name in a namespace: that
// of the namespace itself, else the only one there is. Keys are returned as they
// are.
func (r *Repository) Resolve(ctx context.Context, namespace, name string) (string, error) {
	if s, _ := r.split(name); s != nil || !r.o.Namespacing {
		return name, nil
	}
	if err := CheckName(name); err != nil {
		return "", err
	}
	var keys []string
	for _, s := range r.all() {
		ok, err := s.Has(ctx, name)
		if err != nil {
			return "", err
		}
		if ok && s.Path() == namespace {
			return r.key(s, name), nil
		}
		if ok {
			keys = append(keys, r.key(s, name))
		}
	}
	switch len(keys) {
	case 0:
		return "", backend.Errorf(backend.NotFound, "failed to poll model '%s': model not found in any model repository", name)
	case 1:
		return keys[0], nil
	}
	return "", Ambiguous(name, len(keys))
}

// Ambiguous is the error of a name that count models have.
func Ambiguous(name string, count int) *backend.Error {
	return backend.Errorf(backend.InvalidArg,
		"There are %d identifiers of model '%s' in global map, model namespace must be provided to resolve ambiguity.", count, name)
}
