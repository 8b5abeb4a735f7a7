package repository

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Look is what all repositories held at one time.
type Look struct {
	// Models holds what was seen of each name.
	Models map[string]Sighting
	// Failed says of each repository that could not be read why, by its path.
	Failed map[string]error
	// Away says the same of those that the cache stands in for.
	Away map[string]error
}

// Sighting is what one look saw of a model.
type Sighting struct {
	// Path is that of the repository that holds it.
	Path string
	// Mark stays the same as long as the files do.
	Mark string
	// Duplicate says that two or more repositories hold a model of that name.
	Duplicate bool
}

// Look looks at all repositories.
func (r *Repository) Look(ctx context.Context) Look {
	look := Look{Models: map[string]Sighting{}, Failed: map[string]error{}, Away: map[string]error{}}
	for _, s := range r.all() {
		marks, err := s.Marks(ctx)
		if err != nil {
			look.Failed[s.Path()] = err
			continue
		}
		for name, mark := range marks {
			name = r.key(s, name)
			if _, twice := look.Models[name]; twice {
				look.Models[name] = Sighting{Duplicate: true}
				continue
			}
			look.Models[name] = Sighting{Path: s.Path(), Mark: mark}
		}
	}
	for _, a := range r.Away() {
		if a.Stands {
			look.Away[a.Path] = a.Err
		}
	}
	return look
}

// Change is a model to load, or to unload when Gone.
type Change struct {
	Name string
	Gone bool
	// Duplicate is the reason of a Gone one that is there more than once.
	Duplicate bool
}

// Watch decides from look to look what has changed. A change is taken when two
// looks with at least Settle between them have seen the same: what somebody is
// still writing waits. It has no clock of its own.
type Watch struct {
	Settle time.Duration
	models map[string]*watched
}

// watched is what is known of one model. The zero Sighting is one not there.
type watched struct {
	taken Sighting // what was acted upon
	seen  Sighting
	since time.Time // when seen was seen first
	retry bool
}

// Prime says what has been taken without a watch, at start.
func (w *Watch) Prime(look Look) {
	w.models = map[string]*watched{}
	for name, s := range look.Models {
		w.models[name] = &watched{taken: s, seen: s}
	}
}

// Take returns the changes to act upon, sorted by name, and how long after now
// to look again because something waits; 0 when nothing does.
func (w *Watch) Take(now time.Time, look Look) (changes []Change, again time.Duration) {
	for name := range look.Models {
		if w.models[name] == nil {
			w.models[name] = &watched{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.models)) {
		m, s := w.models[name], look.Models[name]
		if _, failed := look.Failed[m.taken.Path]; failed && m.taken.Path != s.Path {
			continue // its own repository says nothing: what is loaded goes on
		}
		if s != m.seen {
			m.seen, m.since = s, now
		}
		switch left := w.Settle - now.Sub(m.since); {
		case s == m.taken && !m.retry:
		case s != m.taken && left > 0:
			if again == 0 || left < again {
				again = left
			}
			continue
		default:
			changes = append(changes, Change{Name: name, Gone: s.Mark == "", Duplicate: s.Duplicate})
			m.taken, m.retry = s, false
		}
		if m.taken == (Sighting{}) {
			delete(w.models, name)
		}
	}
	return changes, again
}

// Retry makes the next Take return a change once more.
func (w *Watch) Retry(name string) {
	if m := w.models[name]; m != nil {
		m.retry = true
	}
}

// Present returns the names that have been taken and are there, sorted.
func (w *Watch) Present() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.models)) {
		if w.models[name].taken.Mark != "" {
			names = append(names, name)
		}
	}
	return names
}
