package lifecycle

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/refusals"
)

// checkPaths refuses a request whose configuration names files outside of the
// model: libraries and interpreters run as code, others are read or written with
// the rights of the server. What the model's own configuration names may stand
// in the request's too, since clients send back what they have read.
func (m *Manager) checkPaths(r Request, p *plan) error {
	if r.Config == "" {
		return nil
	}
	named := m.outside(p)
	if len(named) == 0 {
		return nil
	}
	own := m.ownOutside(r)
	for _, o := range named {
		if !slices.Contains(own, o) {
			m.o.Refusals.Refused(refusals.Outside, o.Field+" is '"+o.Value+"'", slog.String("model", r.Name))
			return backend.Errorf(backend.PermissionDenied,
				"load failed for model '%s': the configuration of a load request may name no file outside of the model, "+
					"but %s is '%s'; the model's own configuration file may", r.Name, o.Field, o.Value)
		}
	}
	return nil
}

// outside returns what leads out of the model in all configurations of a plan.
func (m *maker) outside(p *plan) []draft.Outside {
	drafts := []*draft.Draft{p.draft}
	if len(p.drafts) > 0 {
		drafts = slices.Collect(maps.Values(p.drafts))
	}
	var all []draft.Outside
	for _, d := range drafts {
		all = append(all, d.Outside(m.backends.driver(d.Backend(), d.Runtime(), []string{p.snapshot.Directory}))...)
	}
	return all
}

// ownOutside is outside for what the model is without the request.
func (m *Manager) ownOutside(r Request) []draft.Outside {
	if len(r.Files) > 0 {
		return nil
	}
	own, err := m.poll(Request{Name: r.Name, bare: true})
	if err != nil {
		return nil
	}
	defer own.snapshot.Release()
	return m.outside(own)
}
