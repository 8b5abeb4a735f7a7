package lifecycle

import (
	"fmt"
	"slices"

	"github.com/nesoserve/neso/internal/modelconfig"
)

// had returns the versions that an evicted model had when it left, if it is being brought
// back and all that failed is another one, which has come into the repository since: a
// model that had not left would go on with them. Else nil.
func (m *Manager) had(p *plan, all []opened) []int64 {
	if !p.back || p.asItWas {
		return nil
	}
	m.mu.Lock()
	had := m.models.entry(p.name).had
	m.mu.Unlock()
	for _, o := range all {
		if o.err != nil && slices.Contains(had, o.version) {
			return nil
		}
	}
	for _, n := range had {
		if !slices.Contains(p.snapshot.Versions, n) {
			return nil
		}
	}
	return had
}

// applyAsItWas loads the versions that an evicted model had, with the rules that it had,
// since what the repository has now cannot be loaded. The next time all is tried again.
func (m *Manager) applyAsItWas(p *plan, had []int64, failure error) error {
	m.log.Error(fmt.Sprintf("'%s' comes back with the versions that it had when it left, %v: %v", p.name, had, failure), "model", p.name)
	p.asItWas, p.policy = true, modelconfig.VersionPolicy{Specific: had}
	return m.apply(p)
}
