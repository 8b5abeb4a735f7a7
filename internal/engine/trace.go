package engine

import (
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/tracing"
)

// Followers knows the requests that are followed otherwise than by the Tracer, by what
// their models were given: it begins with FollowerMark.
type Followers interface {
	// Called returns the timeline of a request that a model sends with its mark; nil for
	// none.
	Called(mark string) infer.Timeline
	// Note notes what the model reports.
	Note(mark, activity string, at int64)
}

// FollowerMark is what the marks of Followers begin with.
const FollowerMark = "#f"

// called returns the timeline of a request that a model sends with what it was given
// of a trace; nil for an untraced one.
func (e *Engine) called(trace string) infer.Timeline {
	if e.o.Followers != nil && strings.HasPrefix(trace, FollowerMark) {
		return e.o.Followers.Called(trace)
	}
	return e.o.Tracer.Called(trace)
}

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
