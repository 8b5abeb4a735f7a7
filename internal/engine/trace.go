package engine

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/tracing"
)

// Tracer follows the sampled requests.
func (e *Engine) Tracer() *tracing.Tracer { return e.o.Tracer }

// TraceSettings returns the trace settings of the server, or of a model for a
// name that is not empty, after changing them.
func (e *Engine) TraceSettings(model string, change tracing.Change) ([]tracing.Field, error) {
	if model != "" && len(e.life.Lookup(model)) == 0 {
		return nil, backend.Errorf(backend.InvalidArg, "Request for unknown model : %s", model)
	}
	if !change.IsZero() {
		if err := e.o.Tracer.Update(model, change); err != nil {
			return nil, err
		}
	}
	return e.o.Tracer.Fields(model), nil
}
