package uses

import (
	"maps"
	"slices"
)

// Graph maps each ensemble to the models it is made of.
type Graph map[string][]string

// Cycle returns a path of ensembles that leads from name back to a model
// already on the path, or nil.
func (g Graph) Cycle(name string) []string {
	var walk func(path []string) []string
	done := map[string]bool{}
	walk = func(path []string) []string {
		last := path[len(path)-1]
		if i := slices.Index(path, last); i < len(path)-1 {
			return path[i:]
		}
		if done[last] {
			return nil
		}
		for _, part := range g[last] {
			if found := walk(append(slices.Clip(path), part)); found != nil {
				return found
			}
		}
		done[last] = true
		return nil
	}
	return walk([]string{name})
}

// Users returns the ensembles that use any of the names, directly or through
// another ensemble, sorted.
func (g Graph) Users(names ...string) []string {
	found := map[string]bool{}
	for again := true; again; {
		again = false
		for ensemble, parts := range g {
			if found[ensemble] {
				continue
			}
			for _, p := range parts {
				if found[p] || slices.Contains(names, p) {
					found[ensemble], again = true, true
					break
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Exclusive returns the models that only name uses, directly or through parts
// that only name uses, and that may go, sorted.
func (g Graph) Exclusive(name string, mayGo func(part string) bool) []string {
	gone := map[string]bool{name: true}
	for again := true; again; {
		again = false
		for ensemble := range gone {
			for _, part := range g[ensemble] {
				if gone[part] || !mayGo(part) {
					continue
				}
				kept := false
				for _, user := range g.Users(part) {
					kept = kept || !gone[user]
				}
				if !kept {
					gone[part], again = true, true
				}
			}
		}
	}
	delete(gone, name)
	return slices.Sorted(maps.Keys(gone))
}

// Order returns the names so that every ensemble comes after its parts, in
// levels that can load at the same time. Names on a cycle come last.
func (g Graph) Order(names []string) [][]string {
	left := slices.Clone(names)
	var levels [][]string
	for len(left) > 0 {
		var level, rest []string
		for _, n := range left {
			waits := slices.ContainsFunc(g[n], func(part string) bool { return slices.Contains(left, part) })
			if waits {
				rest = append(rest, n)
			} else {
				level = append(level, n)
			}
		}
		if level == nil {
			return append(levels, rest)
		}
		levels, left = append(levels, level), rest
	}
	return levels
}
