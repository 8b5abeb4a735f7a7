package ratelimit

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// global is the device of a resource that all devices share.
const global = -2

// key names a resource: on a device, on each (EveryDevice, for capacities), or
// global.
type key struct {
	name   string
	device int
}

// pool is one resource.
type pool struct {
	key      key
	limit    int64
	used     int64
	reserved int64         // while turns are given: for instances that come first
	needs    map[int64]int // how many instances need how much
	passed   int64         // the pass of the last that was given some
}

type need struct {
	pool  *pool
	count int64
}

// needs are an instance's, by resource.
func needs(in Instance) map[key]int64 {
	all := map[key]int64{}
	for _, n := range in.Needs {
		k := key{n.Name, in.Device}
		if n.Global {
			k.device = global
		}
		all[k] = int64(n.Count)
	}
	return all
}

func (l *Limiter) pool(k key) *pool {
	p := l.pools[k]
	if p == nil {
		p = &pool{key: k, needs: map[int64]int{}}
		l.pools[k] = p
	}
	return p
}

func (p *pool) add(count int64) { p.needs[count]++ }

// remove undoes add and reports whether nobody needs the resource any more.
func (p *pool) remove(count int64) bool {
	if p.needs[count]--; p.needs[count] == 0 {
		delete(p.needs, count)
	}
	return len(p.needs) == 0
}

// most is what the instance that needs most of the resource needs.
func (p *pool) most() int64 {
	n := int64(0)
	for count := range p.needs {
		n = max(n, count)
	}
	return n
}

// fill sets the limits and reports what is short, or of two kinds. The first
// fault in Triton's order counts.
func (l *Limiter) fill() error {
	keys := slices.SortedFunc(maps.Keys(l.pools), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.name, b.name))
	})
	for _, k := range keys {
		p := l.pools[k]
		p.limit = p.most()
		if l.explicit == nil {
			continue
		}
		has := l.capacity(k)
		if has < p.limit {
			return backend.Errorf(backend.InvalidArg,
				"Resource count for \"%s\" is limited to %d which will prevent scheduling of one or more model instances, the minimum "+
					"required count is %d",
				k.name, has, p.limit)
		}
		p.limit = has
	}
	for _, k := range keys {
		if k.device == global {
			continue
		}
		if _, both := l.pools[key{k.name, global}]; both {
			return backend.Errorf(backend.InvalidArg,
				"Resource \"%s\" is present as both global and device-specific resource in the model configuration.", k.name)
		}
	}
	return nil
}

// capacity is what the command line gives. For a global resource the device is
// of no importance; what is not named is not there.
func (l *Limiter) capacity(k key) int64 {
	n := int64(0)
	for e, count := range l.explicit {
		if e.name == k.name && (k.device == global || e.device == k.device || e.device == EveryDevice) {
			n = max(n, count)
		}
	}
	return n
}

// Table says how much there is of each resource, in the form of Triton's log.
func (g *Group) Table() string {
	var text strings.Builder
	text.WriteString("\nMax Resource Map===>\n")
	device := math.MinInt
	all := g.limiter.Usage()
	slices.SortStableFunc(all, func(a, b Usage) int { return cmp.Compare(a.Device, b.Device) })
	for _, u := range all {
		if u.Device != device {
			if device = u.Device; device == global {
				text.WriteString("\tDevice: GLOBAL\n")
			} else {
				fmt.Fprintf(&text, "\tDevice: %d\n", device)
			}
		}
		fmt.Fprintf(&text, "\t\tResource: %s\t Count: %d\n", u.Resource, u.Limit)
	}
	return text.String()
}

// Usage is what is in use of one resource.
type Usage struct {
	Resource string
	// Device is its number, or -2 for a resource that all devices share.
	Device      int
	Limit, Used int64
}

// Usage lists the resources that instances need, by name and device.
func (l *Limiter) Usage() []Usage {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Usage, 0, len(l.pools))
	for k, p := range l.pools {
		all = append(all, Usage{k.name, k.device, p.limit, p.used})
	}
	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Device, b.Device))
	})
	return all
}
