package lifecycle

import "github.com/nesoserve/neso/internal/repository"

// split takes the name of an entry apart: with namespacing it holds the
// repository of the model.
func split(r *repository.Repository, key string) (namespace, name string) {
	if r == nil {
		return "", key
	}
	return r.Split(key)
}

func (m *maker) split(key string) (namespace, name string) { return split(m.o.Repository, key) }

// left reports whether all versions have been unloaded, or are about to be.
func (e *entry) left() bool {
	for _, v := range e.versions {
		if v.state != Unloading && !v.unwanted {
			return false
		}
	}
	return len(e.versions) > 0
}

// resolve returns the keys of the models that a request to load them names.
func (m *Manager) resolve(name string) ([]string, error) {
	if m.o.Repository == nil || !m.o.Repository.Namespacing() || m.boundVersions(name) != nil {
		return []string{name}, nil
	}
	return m.o.Repository.ResolveAll(m.ctx, name)
}

// resolveParts finds the models of an ensemble's steps, those of its own
// repository first. A name that leads nowhere, or to several, stays: the load
// fails with it.
func (m *maker) resolveParts(p *plan) {
	namespace, _ := m.split(p.name)
	spaces := map[string]string{}
	for i, part := range p.parts {
		if !m.o.Repository.Namespacing() {
			continue
		}
		key, err := m.o.Repository.Resolve(m.ctx, namespace, part)
		if err == nil {
			p.parts[i] = key
			spaces[part], _ = m.split(key)
		}
	}
	if p.draft != nil {
		p.draft.SetNamespaces(spaces)
	}
}
