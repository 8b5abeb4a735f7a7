package model

import (
	"github.com/nesoserve/neso/internal/ratelimit"
)

// limit tells the rate limiter what the instances of a model need; nil without a
// rate limiter.
func limit(planned []plannedInstance, l *ratelimit.Limiter) (*ratelimit.Group, error) {
	all := make([]ratelimit.Instance, len(planned))
	for i := range planned {
		all[i] = planned[i].limit
	}
	return l.Register(all)
}

// InstanceNumber returns the index of an instance in Limits, by its name, or -1.
func (m *Model) InstanceNumber(name string) int {
	if m.pool == nil {
		return -1
	}
	return m.pool.Number(name)
}
