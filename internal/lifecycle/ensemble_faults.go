package lifecycle

import (
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
)

// faultList collects what keeps an ensemble from loading, each reason once.
type faultList []string

func (l *faultList) add(err error) {
	if err != nil && !slices.Contains(*l, err.Error()) {
		*l = append(*l, err.Error())
	}
}

func (l faultList) err() error {
	return backend.Errorf(backend.InvalidArg, "%s", strings.Join(l, "; "))
}

// explain adds to the faults of an ensemble's own configuration those that the
// models of its steps make of it, so that one attempt tells all of them.
// Nothing is loaded for that.
func (m *Manager) explain(p *plan, err error) error {
	m.resolveParts(p)
	s := m.survey(p)
	lines := append([]string{err.Error()}, s.missing...)
	if path := s.graph.cycle(p.name); path != nil {
		lines = append(lines, cycleError(path).Error())
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
	missing  faultList
	graph    graph
}

func (m *Manager) survey(p *plan) *survey {
	s := &survey{m: m, declared: map[string]*modelconfig.Config{}, versions: map[string][]int64{}, unknown: map[string]bool{}}
	m.mu.Lock()
	s.graph = m.graphLocked()
	m.mu.Unlock()
	s.graph[p.name] = p.parts
	for _, part := range p.parts {
		s.missing.add(s.read(p.name, part))
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
		return partError(user, part, err)
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

func cycleError(path []string) error {
	return backend.Errorf(backend.InvalidArg, "%s%s", circular, strings.Join(path, " -> "))
}

const circular = "circular dependency between ensembles: "

// partFailed is the error of an ensemble whose part was read and did not load.
func partFailed(ensemble string, part *plan, err error) error {
	reason := strings.TrimPrefix(strings.TrimSuffix(err.Error(), "\n"), loadPrefix(part.name))
	switch {
	case strings.HasPrefix(reason, circular):
		return backend.Errorf(backend.InvalidArg, "%s", reason)
	case part.ensemble:
		return backend.Errorf(backend.InvalidArg,
			"ensemble '%s' depends on '%s' which is not valid. Model '%s' failed with error: %s", ensemble, part.name, part.name, reason)
	}
	return partError(ensemble, part.name, err)
}

func partError(ensemble, part string, err error) error {
	if backend.AsError(err).Code == backend.NotFound {
		return backend.Errorf(backend.InvalidArg, "ensemble %s contains models that are not available or ambiguous: %s", ensemble, part)
	}
	return backend.Errorf(backend.InvalidArg, "ensemble '%s' depends on '%s' which has no loaded version. Model '%s' loading "+
		"failed with error: %s", ensemble, part, part, strings.TrimPrefix(strings.TrimSuffix(err.Error(), "\n"), loadPrefix(part)))
}
