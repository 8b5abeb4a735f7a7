package lifecycle

import (
	"github.com/nesoserve/neso/internal/lifecycle/routing"
	"github.com/nesoserve/neso/internal/model"
)

// publishLocked makes the ready versions of models what requests see.
func (m *Manager) publishLocked(names ...string) {
	m.publish(m.nextLocked(names...))
	m.loopsLocked() // ensembles may have come or gone
}

// nextLocked returns the table with the ready versions of models as they are now.
func (m *Manager) nextLocked(names ...string) *routing.Table {
	models := m.Table().Models()
	for _, name := range names {
		var ready []*model.Model
		if e := m.models.entries[name]; e != nil {
			ready = e.ready()
		}
		if ready == nil {
			delete(models, name)
		} else {
			models[name] = m.servedLocked(name, ready)
		}
	}
	m.models.aliases(models, names)
	return routing.NewTable(models)
}
