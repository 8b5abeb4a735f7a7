package lifecycle

import (
	"context"

	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/repository"
)

// Resident is a model with versions that serve.
type Resident struct {
	Name string
	// Parts are the models that an ensemble is made of.
	Parts []string
	// Models are its versions, ascending.
	Models []*model.Model
	// Fixed says that the repository could not bring it back as it is: a program has
	// bound it, or a request has brought its configuration or files.
	Fixed bool
}

// Residents returns the models that serve, in no order.
func (m *Manager) Residents() []Resident {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Resident
	// Of what serves, and not of all that have ever been loaded: these may be many more.
	for name, models := range m.All() {
		e := m.models.entries[name]
		if e == nil {
			continue // another name of one
		}
		fixed := e.snapshot != nil && (e.snapshot.IsBound() || e.snapshot.FromRequest())
		all = append(all, Resident{Name: name, Parts: e.parts, Models: models, Fixed: fixed})
	}
	return all
}

// Sketch is what can be said of a model without its backend.
type Sketch struct {
	// Config is as far as the repository has it.
	Config *modelconfig.Config
	// Parts are the models that an ensemble is made of.
	Parts []string
	// Bytes is how large the files are of the versions that would be served.
	Bytes int64
}

// Sketch reads a model and loads nothing. No agent is told.
func (m *Manager) Sketch(ctx context.Context, name string) (Sketch, error) {
	if err := repository.CheckName(name); err != nil {
		return Sketch{}, err
	}
	snapshot, err := m.o.Repository.Read(ctx, name, "", nil, m.log)
	if err != nil {
		return Sketch{}, err
	}
	defer snapshot.Release()
	p := &plan{name: name, snapshot: snapshot}
	draft, err := m.draft(p)
	if err != nil {
		return Sketch{}, err
	}
	if err := m.prove(p, draft); err != nil {
		return Sketch{}, err
	}
	serve, _ := p.policy.Select(snapshot.Versions)
	return Sketch{Config: p.draft.View(), Parts: p.parts, Bytes: snapshot.Size(serve)}, nil
}
