package model

import (
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
)

// limit tells the rate limiter what the instances of a model need; nil when
// nothing limits them.
func limit(c *modelconfig.Config, l *ratelimit.Limiter) (*ratelimit.Group, error) {
	if l == nil {
		return nil, nil
	}
	var all []ratelimit.Instance
	for i := range c.Groups {
		g := &c.Groups[i]
		var needs []ratelimit.Need
		for _, r := range g.Resources {
			needs = append(needs, ratelimit.Need(r))
		}
		for _, in := range g.Instances() { // in the order of the pool
			all = append(all, ratelimit.Instance{Device: in.Device, Needs: needs, Priority: g.RateLimiterPriority})
		}
	}
	return l.Register(all)
}

// InstanceNumber returns the place of an instance in Limits, by its name, or -1.
func (m *Model) InstanceNumber(name string) int {
	n := 0
	for i := range m.config.Groups {
		for _, in := range m.config.Groups[i].Instances() {
			if in.Name == name {
				return n
			}
			n++
		}
	}
	return -1
}
