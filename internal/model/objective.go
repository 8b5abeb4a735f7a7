package model

import (
	"strconv"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler/dynamic"
)

// paramObjective is the parameter of a model configuration that gives its requests
// a time, in milliseconds, within which 99 of 100 are answered. It replaces the
// preferred batch sizes and the delay of dynamic batching.
const paramObjective = "latency_objective_ms"

// mostObjective bounds it: what may take longer than that needs no objective.
const mostObjective = time.Hour

// latencyObjective is the one of a configuration; 0 for none.
func latencyObjective(c *modelconfig.Config) (time.Duration, error) {
	v, ok := c.Parameters[paramObjective]
	if !ok {
		return 0, nil
	}
	refuse := func(expected string) (time.Duration, error) {
		return 0, backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s' is '%s': %s", paramObjective, c.Name, v, expected)
	}
	ms, err := strconv.ParseFloat(v, 64)
	limit := time.Duration(ms * float64(time.Millisecond))
	switch {
	case err != nil || !(ms > 0) || ms > float64(mostObjective.Milliseconds()) || limit <= 0:
		return refuse("expected a number of milliseconds above 0, at most an hour")
	case c.Dynamic == nil:
		return refuse("it needs 'dynamic_batching'")
	case c.Dynamic.PriorityLevels > 0 || len(c.Dynamic.Policies) > 0 || c.Dynamic.DefaultPolicy != modelconfig.QueuePolicy{}:
		return refuse("it cannot be together with 'priority_levels' or a queue policy of 'dynamic_batching': it says itself who waits how long")
	}
	return limit, nil
}

// Explain says what a model with a latency objective has learnt, and why its last
// batches were closed.
func (m *Model) Explain() (*dynamic.Explanation, error) {
	if s, ok := m.scheduler.(*dynamic.Scheduler); ok {
		if e := s.Explain(); e != nil {
			e.Model, e.Version = m.config.Name, strconv.FormatInt(m.version, 10)
			return e, nil
		}
	}
	return nil, backend.Errorf(backend.InvalidArg, "model '%s' has no latency objective: its configuration has no parameter '%s'",
		m.config.Name, paramObjective)
}
