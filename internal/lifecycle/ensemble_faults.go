package lifecycle

import (
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/lifecycle/uses"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
)

// explain adds to the faults of an ensemble's own configuration those that the
// models of its steps make of it, so that one attempt tells all of them.
// Nothing is loaded for that.
func (m *Manager) explain(p *plan, err error) error {
	m.resolveParts(p)
	s := m.survey(p)
	lines := append([]string{err.Error()}, s.missing...)
	if path := s.graph.Cycle(p.name); path != nil {
		lines = append(lines, reason.Circle(path).Error())
	}
	if p.draft != nil { // else some of it could not be read, and tensors may seem to be missing
		lines = append(lines, s.faults(p)...)
	}
	return backend.Errorf(backend.AsError(err).Code, "%s", strings.Join(lines, "\n"))
}

// survey is what can be said of the models of an ensemble's steps, whether
// they serve or not.
type survey struct {
	m        *Manager
	declared map[string]*modelconfig.Config // of those that do not serve, as far as their files say
	versions map[string][]int64             // of the same
	unknown  map[string]bool                // whose inputs and outputs nothing says
	missing  reason.List
	graph    uses.Graph
}

func (m *Manager) survey(p *plan) *survey {
	s := &survey{m: m, declared: map[string]*modelconfig.Config{}, versions: map[string][]int64{}, unknown: map[string]bool{}}
	m.mu.Lock()
	s.graph = m.models.graph()
	m.mu.Unlock()
	s.graph[p.name] = p.parts
	for _, part := range p.parts {
		s.missing.Add(s.read(p.name, part))
	}
	return s
}

// read reads the configuration of a model that does not serve, and of those
// that it is made of.
func (s *survey) read(user, part string) error {
	if part == "" || s.declared[part] != nil || s.unknown[part] || len(s.m.Lookup(part)) > 0 {
		return nil
	}
	s.unknown[part] = true
	sub, err := s.m.poll(Request{Name: part, bare: true})
	if err != nil {
		return reason.OfAbsent(user, part, err)
	}
	defer sub.snapshot.Release()
	s.graph[part] = sub.parts
	for _, of := range sub.parts {
		_ = s.read(part, of) // for the circles only: the rest is for the part's own load to say
	}
	// What a backend would complete is not known yet.
	if c := sub.draft.View(); len(c.Inputs) > 0 && len(c.Outputs) > 0 {
		s.versions[part], _ = sub.policy.Select(sub.snapshot.Versions)
		s.declared[part] = c
		delete(s.unknown, part)
	}
	return nil
}

func (s *survey) lookup(name string, version int64) *modelconfig.Config {
	if c := s.declared[name]; c != nil && (version == -1 || slices.Contains(s.versions[name], version)) {
		return c
	}
	return s.m.part(name, version)
}

// faults holds an ensemble against its models.
func (s *survey) faults(p *plan) []string {
	return ensemble.Faults(p.draft.View(), s.lookup, s.unknown)
}
