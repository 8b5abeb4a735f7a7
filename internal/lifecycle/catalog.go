package lifecycle

import (
	"slices"

	"github.com/nesoserve/neso/internal/lifecycle/routing"
	"github.com/nesoserve/neso/internal/lifecycle/uses"
	"github.com/nesoserve/neso/internal/repository"
)

// catalog is what is known of models, by the names of their entries, which with namespacing
// hold the repository. Manager.mu guards it.
type catalog struct {
	entries    map[string]*entry
	repository *repository.Repository // nil where there is none
}

func (c *catalog) split(key string) (namespace, name string) { return split(c.repository, key) }

// entry returns what is known of a model, which it begins to know then.
func (c *catalog) entry(name string) *entry {
	e := c.entries[name]
	if e == nil {
		e = &entry{versions: map[int64]*version{}}
		c.entries[name] = e
	}
	return e
}

// pulled reports whether an ensemble brought a model in, and not who asked for it.
func (c *catalog) pulled(name string) bool { return c.entries[name] != nil && c.entries[name].pulled }

// key returns the name of the entry that a model's name stands for; of no
// entry, or of several, the name itself.
func (c *catalog) key(name string) string {
	if keys := c.keys(name); len(keys) == 1 {
		return keys[0]
	}
	return name
}

// named returns the names of the entries that a model's name stands for; of
// none, the name itself.
func (c *catalog) named(name string) []string {
	if keys := c.keys(name); len(keys) > 0 {
		return keys
	}
	return []string{name}
}

// keys returns the names of the entries that a model's name may stand for.
// Those that have been unloaded count where there is no other: a model that is
// taken out of one repository leaves its name to that of another.
func (c *catalog) keys(name string) []string {
	if c.entries[name] != nil || c.repository == nil || !c.repository.Namespacing() {
		return []string{name}
	}
	var keys, left []string
	for key, e := range c.entries {
		switch _, n := c.split(key); {
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

// ambiguous returns the error of a name that several models have, or nil.
func (c *catalog) ambiguous(name string) error {
	if keys := c.keys(name); len(keys) > 1 {
		return repository.Ambiguous(name, len(keys))
	}
	return nil
}

// aliases lets the plain names of keys stand for them in a table, where
// there is only one model of that name.
func (c *catalog) aliases(t map[string]*routing.Served, keys []string) {
	for _, key := range keys {
		namespace, name := c.split(key)
		if namespace == "" || c.entries[name] != nil {
			continue
		}
		delete(t, name)
		if all := c.keys(name); len(all) == 1 && t[all[0]] != nil {
			t[name] = t[all[0]]
		}
	}
}

// graph returns the loaded ensembles with their parts.
func (c *catalog) graph() uses.Graph {
	g := uses.Graph{}
	for name, e := range c.entries {
		if len(e.parts) > 0 {
			g[name] = slices.Clone(e.parts)
		}
	}
	return g
}

// used splits the models that are gone into those that loaded ensembles use
// which are not gone themselves, and the others.
func (c *catalog) used(gone []string) (used, free []string) {
	g := c.graph()
	for _, name := range gone {
		if slices.ContainsFunc(g.Users(name), func(user string) bool { return !slices.Contains(gone, user) }) {
			used = append(used, name)
		} else {
			free = append(free, name)
		}
	}
	return used, free
}

// wanters returns the ensembles that use any of the names, directly or
// through others, loaded or not; and those that may use them from now on.
func (c *catalog) wanters(names []string) []string {
	g := uses.Graph{}
	for name, e := range c.entries {
		if len(e.wants) > 0 {
			g[name] = e.wants
		}
	}
	users := g.Users(names...)
	for ensemble, parts := range g {
		if c.turnsTo(ensemble, parts, names) {
			users = append(append(users, ensemble), g.Users(ensemble)...)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// turnsTo reports whether one of the names may take the place of a part that an
// ensemble has from another namespace: one of its own does, and any does where
// the part was not found.
func (c *catalog) turnsTo(ensemble string, parts, names []string) bool {
	space, _ := c.split(ensemble)
	for _, key := range names {
		in, name := c.split(key)
		for _, part := range parts {
			from, of := c.split(part)
			if in != "" && of == name && part != key && (in == space || from == "") {
				return true
			}
		}
	}
	return false
}

// affected returns the ensembles that the models may bring back or make anew, directly or
// through others, each after those that it is made of.
func (c *catalog) affected(models []string) (names []string) {
	g := uses.Graph{}
	for name, e := range c.entries {
		if parts := e.madeOf(); len(parts) > 0 {
			g[name] = parts
		}
	}
	users := slices.DeleteFunc(g.Users(models...), func(name string) bool { return slices.Contains(models, name) })
	return slices.Concat(g.Order(users)...)
}
