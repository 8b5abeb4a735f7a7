package lifecycle

import (
	"github.com/nesoserve/neso/internal/lifecycle/routing"
	"github.com/nesoserve/neso/internal/repository"
)

// split takes the name of an entry apart: with namespacing it holds the
// repository of the model.
func (m *maker) split(key string) (namespace, name string) {
	if m.o.Repository == nil {
		return "", key
	}
	return m.o.Repository.Split(key)
}

// keyLocked returns the name of the entry that a model's name stands for; of no
// entry, or of several, the name itself.
func (m *Manager) keyLocked(name string) string {
	if keys := m.keysLocked(name); len(keys) == 1 {
		return keys[0]
	}
	return name
}

// namedLocked returns the names of the entries that a model's name stands for; of
// none, the name itself.
func (m *Manager) namedLocked(name string) []string {
	if keys := m.keysLocked(name); len(keys) > 0 {
		return keys
	}
	return []string{name}
}

// keysLocked returns the names of the entries that a model's name may stand for.
// Those that have been unloaded count where there is no other: a model that is
// taken out of one repository leaves its name to that of another.
func (m *Manager) keysLocked(name string) []string {
	if m.models[name] != nil || m.o.Repository == nil || !m.o.Repository.Namespacing() {
		return []string{name}
	}
	var keys, left []string
	for key, e := range m.models {
		switch _, n := m.split(key); {
		case n != name || e.unread:
		case e.left():
			left = append(left, key)
		default:
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return left
	}
	return keys
}

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

// aliasesLocked lets the plain names of keys stand for them in a table, where
// there is only one model of that name.
func (m *Manager) aliasesLocked(t map[string]*routing.Served, keys []string) {
	for _, key := range keys {
		namespace, name := m.split(key)
		if namespace == "" || m.models[name] != nil {
			continue
		}
		delete(t, name)
		if all := m.keysLocked(name); len(all) == 1 && t[all[0]] != nil {
			t[name] = t[all[0]]
		}
	}
}

// ambiguousLocked returns the error of a name that several models have, or nil.
func (m *Manager) ambiguousLocked(name string) error {
	if keys := m.keysLocked(name); len(keys) > 1 {
		return repository.Ambiguous(name, len(keys))
	}
	return nil
}
