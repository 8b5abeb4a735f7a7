package ratelimit

import "slices"

// Claim is a number of units of one resource.
type Claim struct {
	Resource Resource
	Units    int64
	Of       int64 // how much there is
}

// Resource names a resource, global or of a device.
type Resource struct {
	Name   string
	device int
}

// Held returns what an instance of the group holds at present. A group that is
// nil holds nothing.
func (g *Group) Held(instance int) []Claim {
	if g == nil || instance < 0 {
		return nil
	}
	g.limiter.mu.Lock()
	defer g.limiter.mu.Unlock()
	if instance >= len(g.instances) || g.instances[instance] == nil || !g.instances[instance].holds {
		return nil
	}
	return g.instances[instance].claimsLocked()
}

// Least returns what must be free for any instance of the group to run.
func (g *Group) Least() []Claim {
	if g == nil {
		return nil
	}
	g.limiter.mu.Lock()
	defer g.limiter.mu.Unlock()
	there := slices.DeleteFunc(slices.Clone(g.instances), func(in *instance) bool { return in == nil })
	if len(there) == 0 {
		return nil
	}
	least := there[0].claimsLocked()
	for _, in := range there[1:] {
		units := map[Resource]int64{}
		for _, c := range in.claimsLocked() {
			units[c.Resource] = c.Units
		}
		kept := least[:0]
		for _, c := range least {
			if c.Units = min(c.Units, units[c.Resource]); c.Units > 0 {
				kept = append(kept, c)
			}
		}
		least = kept
	}
	return least
}

func (in *instance) claimsLocked() []Claim {
	all := make([]Claim, 0, len(in.needs))
	for _, n := range in.needs {
		all = append(all, Claim{Resource{n.pool.key.name, n.pool.key.device}, n.count, n.pool.limit})
	}
	return all
}
