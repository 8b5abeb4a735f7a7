package engine

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
	"github.com/nesoserve/neso/tensor"
)

// steps is the way of ensembles to the models of their steps; it implements
// ensemble.Host.
type steps struct{ e *Engine }

// Pin pins a model version. The requests to it are not admitted anew: what an
// ensemble does for a request belongs to that request, and a server that is
// full must be able to finish what it has begun.
func (s steps) Pin(name string, version int64) (ensemble.Target, error) {
	if m := s.e.life.Pin(name, version); m != nil {
		return m, nil
	}
	return nil, s.e.life.Explain(name, version)
}

// Holding is Pin.follow for a step.
func (s steps) Holding(name string, target ensemble.Target, id backend.CorrelationID) ensemble.Target {
	m := target.(*model.Model)
	if !s.e.life.HasRules(name) || m.HoldsSequence(id) {
		return nil
	}
	if other := s.e.life.Sibling(name, id, m); other != nil {
		return other
	}
	return nil
}

func (s steps) Infer(r *infer.Request) error { return s.e.Infer(r) }

func (s steps) Ready(name string, version int64) error { return s.e.modelReady(name, version) }

func (s steps) Allocator(name string, version int64) tensor.Allocator {
	if m := s.e.life.Find(name, version); m != nil {
		return m.Allocator()
	}
	return nil
}

func (s steps) Labels(name string, version int64, output string) []string {
	if m := s.e.life.Find(name, version); m != nil {
		return m.Labels(output)
	}
	return nil
}
