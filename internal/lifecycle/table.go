package lifecycle

import (
	"maps"
	"slices"

	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/rollout"
)

// table is what serves at present. It is immutable: a change publishes a new
// one, so that a request needs one atomic load and no lock. Readers may still
// hold an older table; the versions in it refuse the pin once they are closed,
// and then the reader looks at the newest table.
type table struct{ models map[string]*served }

// served is the ready versions of one model, ascending.
type served struct {
	versions []*model.Model
	// plan is how requests without a version are shared out, nil where nobody says; then
	// primary is nil too.
	plan    *rollout.Plan
	live    *rollout.Live
	primary *model.Model
}

// find returns the version, or the primary one for -1, else the highest one, or nil.
func (s *served) find(version int64) *model.Model {
	if s == nil {
		return nil
	}
	if version == -1 {
		if s.primary != nil {
			return s.primary
		}
		return s.versions[len(s.versions)-1]
	}
	for _, m := range s.versions {
		if m.Version() == version {
			return m
		}
	}
	return nil
}

// Pin returns a ready version, kept loaded until Unpin, or the latest one for
// version -1. It returns nil when there is none; Explain says why. It takes no
// lock and does not allocate.
func (m *Manager) Pin(name string, version int64) *model.Model {
	t := m.table.Load()
	for {
		v := t.models[name].find(version)
		if v == nil || v.Pin() {
			return v
		}
		// The version was taken away between the look-up and the pin.
		newer := m.table.Load()
		if newer == t {
			return nil
		}
		t = newer
	}
}

// Find is Pin without a pin: what it returns may be closed at any time.
func (m *Manager) Find(name string, version int64) *model.Model {
	return m.table.Load().models[name].find(version)
}

// Lookup returns the ready versions of a model in ascending order, unpinned.
// The slice must not be changed.
func (m *Manager) Lookup(name string) []*model.Model {
	if s := m.table.Load().models[name]; s != nil {
		return s.versions
	}
	return nil
}

// Ready returns nil, or why v, found as that version of the model (-1: the
// latest), cannot serve at present. What it says while another version takes its
// place is not heard: that one is asked. gone reports that none has taken it.
func (m *Manager) Ready(name string, version int64, v *model.Model) (gone bool, err error) {
	for {
		if err = v.Ready(); err == nil {
			return false, nil
		}
		switch now := m.table.Load().models[name].find(version); now {
		case nil:
			return true, err
		case v:
			return false, err
		default:
			v = now
		}
	}
}

// Serving returns the names of all models with a ready version, sorted.
func (m *Manager) Serving() []string {
	return slices.Sorted(maps.Keys(m.table.Load().models))
}

// config returns the configuration of a version that serves, the latest for -1, or nil.
func (t *table) config(name string, version int64) *modelconfig.Config {
	if v := t.models[name].find(version); v != nil {
		return v.Config()
	}
	return nil
}

// publishLocked makes the ready versions of models what requests see.
func (m *Manager) publishLocked(names ...string) {
	m.table.Store(m.nextLocked(names...))
	m.loopsLocked() // ensembles may have come or gone
}

// nextLocked returns the table with the ready versions of models as they are now.
func (m *Manager) nextLocked(names ...string) *table {
	models := maps.Clone(m.table.Load().models)
	for _, name := range names {
		var ready []*model.Model
		if e := m.models[name]; e != nil {
			for _, n := range e.numbers() {
				if v := e.versions[n]; v.state == Ready {
					ready = append(ready, v.model)
				}
			}
		}
		if ready == nil {
			delete(models, name)
		} else {
			models[name] = m.servedLocked(name, ready)
		}
	}
	m.aliasesLocked(models, names)
	return &table{models: models}
}
