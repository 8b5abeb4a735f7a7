package lifecycle

import (
	"slices"

	"github.com/nesoserve/neso/internal/lifecycle/uses"
	"github.com/nesoserve/neso/internal/model"
)

// departure is a version that serves no longer and is not closed yet.
type departure struct {
	model *model.Model
	done  chan struct{} // closed when it is
}

// departures are the versions that are being closed, by the name of the model's entry.
// Manager.mu guards them.
type departures map[string][]*departure

// add notes that a version is being closed, until remove.
func (all departures) add(name string, v *model.Model) *departure {
	d := &departure{model: v, done: make(chan struct{})}
	all[name] = append(all[name], d)
	return d
}

func (all departures) remove(name string, d *departure) {
	left := slices.DeleteFunc(slices.Clone(all[name]), func(other *departure) bool { return other == d })
	if len(left) == 0 {
		delete(all, name)
	} else {
		all[name] = left
	}
	close(d.done)
}

// before returns the departures of the models that have called name: it
// stays until they are gone, since their last requests may need it. Models that
// call each other do not wait.
func (all departures) before(g uses.Graph, name string) []*departure {
	var waits []*departure
	for _, user := range g.Users(name) {
		if user != name && !slices.Contains(g.Users(user), name) {
			waits = append(waits, all[user]...)
		}
	}
	return waits
}

// pin pins a version that departs, the latest one for -1, for a request of a model that
// departs, too; nil where there is none.
func (all departures) pin(caller, name string, version int64) *model.Model {
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
