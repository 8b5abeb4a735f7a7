package lifecycle

import (
	"log/slog"
	"slices"

	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/spelling"
)

// warnOfParameters reports the parameters of a configuration that nothing reads,
// and which may have been meant. Triton ignores them without a word.
func (m *Manager) warnOfParameters(p *plan, version int64) {
	if _, bound := p.bound[version]; bound {
		return // its program says what it means
	}
	d := m.backends.find(p.draft.Backend(), p.draft.Runtime())
	if d == nil || d.Parameters == nil {
		return
	}
	known := slices.Concat(d.Parameters, model.Parameters)
	for _, name := range p.draftOf(version).Parameters() {
		if spelling.Known(name, known) {
			continue
		}
		if d.OwnParameters && spelling.Nearest(name, known) == "" {
			continue
		}
		m.log.Warn("the model has a parameter that is not known and has no effect", slog.String("model", p.name), slog.Int64("version", version), slog.String("parameter", name), spelling.Meant(name, known))
	}
}
