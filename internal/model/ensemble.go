package model

import (
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
	"github.com/nesoserve/neso/tensor"
)

// openEnsemble makes the version of an ensemble, which has no backend and no
// instances: its scheduler sends requests to other models.
func (m *Model) openEnsemble(o *Options) {
	m.graph, m.host = o.Graph, o.Host
	model, version := o.Graph.Reader()
	m.allocator = &stepAllocator{host: o.Host, model: model, version: version, otherwise: o.Allocator}
	m.scheduler = ensemble.New(ensemble.Options{Graph: o.Graph, Host: o.Host, Stats: m.stats, Logger: m.logger})
}

// Edges returns what has gone along the edges of an ensemble; nil of other models.
func (m *Model) Edges() []ensemble.Passed {
	if s, ok := m.scheduler.(*ensemble.Scheduler); ok {
		return s.Edges()
	}
	return nil
}

// NewRequest returns a request of an ensemble's step. Whoever calls it has a
// pin; the request has another one.
func (m *Model) NewRequest(sink infer.Sink) *infer.Request {
	m.pins.Add(1) // never refused: with a pin held, closing waits
	r := infer.New(sink, endStep)
	r.Owner, r.ModelName, r.ModelVersion = m, m.config.Name, m.version
	return r
}

func endStep(r *infer.Request) { r.Owner.(*Model).Unpin() }

// stepAllocator gives memory where the first step wants its inputs, so that
// they need not be copied there.
type stepAllocator struct {
	host      ensemble.Host
	model     string
	version   int64
	otherwise tensor.Allocator
}

// Allocate implements tensor.Allocator. The step's model is not pinned: where it
// is being replaced, ordinary memory does as well.
func (a *stepAllocator) Allocate(size int) (*tensor.Buffer, error) {
	if first := a.host.Allocator(a.model, a.version); first != nil {
		if b, err := first.Allocate(size); err == nil {
			return b, nil
		}
	}
	return a.otherwise.Allocate(size)
}

func (m *Model) stepLabels(output string) []string {
	model, version, of := m.graph.Writer(output)
	if model == "" {
		return nil
	}
	return m.host.Labels(model, version, of)
}

// stepsReady returns why a step cannot serve, if one cannot.
func (m *Model) stepsReady() (err error) {
	m.graph.Steps(func(model string, version int64) bool {
		err = m.host.Ready(model, version)
		return err == nil
	})
	return err
}
