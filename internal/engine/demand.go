package engine

import (
	"context"

	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/ondemand"
	"github.com/nesoserve/neso/internal/rollout"
)

// bring pins a model that was not there: where models are loaded on demand, once it is
// loaded. It returns why there is none.
func (e *Engine) bring(ctx context.Context, name string, ask *rollout.Ask) (m *model.Model, route *rollout.Route, err error) {
	there, err := e.demand.Bring(ctx, "", name, func() bool {
		m, route = e.life.PinAsked(name, ask)
		return m != nil
	})
	if !there && err == nil {
		err = e.explain(name, ask)
	}
	return m, route, err
}

// bringFor is bring for a request that the model caller sends.
func (e *Engine) bringFor(ctx context.Context, caller, name string, ask *rollout.Ask) (m *model.Model, err error) {
	there, err := e.demand.Bring(ctx, caller, name, func() bool {
		m = e.life.PinInside(caller, name, ask)
		return m != nil
	})
	if !there && err == nil {
		err = e.explain(name, ask)
	}
	return m, err
}

// Demand returns what reads the numbers of loads on demand, or nil in another mode.
func (e *Engine) Demand() func() ondemand.Numbers {
	if e.demand == nil {
		return nil
	}
	return e.demand.Numbers
}
