// Package departing owns the versions that serve no longer and are not closed yet: which
// of them wait for which, and who may still reach them.
//
// Open departing.go.
package departing

import (
	"slices"

	"github.com/nesoserve/neso/internal/lifecycle/uses"
	"github.com/nesoserve/neso/internal/model"
)

// Departure is a version that serves no longer and is not closed yet.
type Departure struct {
	model *model.Model
	done  chan struct{} // closed when it is
}

// Done is closed when the version is.
func (d *Departure) Done() <-chan struct{} { return d.done }

// Set are the versions that are being closed, by the name of the model's entry. Its owner
// guards it.
type Set map[string][]*Departure

// Add notes that a version is being closed, until Remove.
func (all Set) Add(name string, v *model.Model) *Departure {
	d := &Departure{model: v, done: make(chan struct{})}
	all[name] = append(all[name], d)
	return d
}

// Remove notes that it is closed.
func (all Set) Remove(name string, d *Departure) {
	left := slices.DeleteFunc(slices.Clone(all[name]), func(other *Departure) bool { return other == d })
	if len(left) == 0 {
		delete(all, name)
	} else {
		all[name] = left
	}
	close(d.done)
}

// Before returns the departures of the models that have called name: it
// stays until they are gone, since their last requests may need it. Models that
// call each other do not wait.
func (all Set) Before(g uses.Graph, name string) []*Departure {
	var waits []*Departure
	for _, user := range g.Users(name) {
		if user != name && !slices.Contains(g.Users(user), name) {
			waits = append(waits, all[user]...)
		}
	}
	return waits
}

// Pin pins a version that departs, the latest one for -1, for a request of a model that
// departs, too; nil where there is none.
func (all Set) Pin(caller, name string, version int64) *model.Model {
	if len(all[caller]) == 0 {
		return nil
	}
	var best *model.Model
	for _, d := range all[name] {
		v := d.model
		if version != -1 && v.Version() != version || best != nil && v.Version() < best.Version() || !v.Pin() {
			continue
		}
		if best != nil {
			best.Unpin()
		}
		best = v
	}
	return best
}

// All returns all of them, in no order.
func (all Set) All() (versions []*model.Model) {
	for _, list := range all {
		for _, d := range list {
			versions = append(versions, d.model)
		}
	}
	return versions
}
