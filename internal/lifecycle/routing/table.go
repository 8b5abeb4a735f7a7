package routing

import (
	"maps"

	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/rollout"
)

// Table is what serves at present, by the name of the model. It is immutable: a change
// publishes a new one, so that a request needs one atomic load and no lock. Readers may
// still hold an older table; the versions in it refuse the pin once they are closed, and
// then the reader looks at the newest table.
type Table struct{ models map[string]*Served }

// NewTable returns a table of these models, which it keeps. None of them is nil.
func NewTable(models map[string]*Served) *Table { return &Table{models: models} }

// Models returns a copy of what the table has, to make the next one of.
func (t *Table) Models() map[string]*Served { return maps.Clone(t.models) }

// Config returns the configuration of a version that serves, the latest for -1, or nil.
func (t *Table) Config(name string, version int64) *modelconfig.Config {
	if v := t.models[name].find(version); v != nil {
		return v.Config()
	}
	return nil
}

// Served is what requests see of one model. It is immutable.
type Served struct {
	// versions are those that are ready, ascending; there is at least one.
	versions []*model.Model
	// plan is how requests without a version are shared out, nil where nobody says; then
	// primary is nil too.
	plan    *rollout.Plan
	live    *rollout.Live
	primary *model.Model
}

// find returns the version, or the primary one for -1, else the highest one, or nil.
func (s *Served) find(version int64) *model.Model {
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

func (s *Served) describe() Routing {
	r := Routing{Plan: s.plan, Live: s.live}
	for _, v := range s.versions {
		r.Versions = append(r.Versions, v.Version())
	}
	return r
}

// Routing is what holds for the versions of a model at present.
type Routing struct {
	Name, Namespace string
	Versions        []int64
	Plan            *rollout.Plan // nil without rules
	Live            *rollout.Live // nil without rules
}
