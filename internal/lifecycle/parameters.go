package lifecycle

import (
	"log/slog"

	"github.com/nesoserve/neso/internal/model"
)

// warnOfParameters reports the parameters of a configuration that nothing reads,
// and which may have been meant. Triton ignores them without a word.
func (m *maker) warnOfParameters(p *plan, version int64) {
	if _, bound := p.bound[version]; bound {
		return // its program says what it means
	}
	d := m.backends.find(p.draft.Backend(), p.draft.Runtime(), p.folders(version))
	if d == nil {
		return
	}
	for _, u := range p.draftOf(version).UnknownParameters(&d.Driver, model.Parameters) {
		meant := slog.Attr{}
		if u.Meant != "" {
			meant = slog.String("meant", u.Meant)
		}
		m.log.Warn("the model has a parameter that is not known and has no effect", slog.String("model", p.name),
			slog.Int64("version", version), slog.String("parameter", u.Name), meant)
	}
}
