package engine

import "slices"

// node is one version of a model.
type node struct {
	model   string
	version int64
}

// edge is a call that an instance of a model waits for.
type edge struct {
	id       uint64
	caller   node
	instance string // of the caller
	of       int    // how many instances the caller has
	callees  []node // what is needed to answer the call
}

// circle returns a number that names the state of the circle of waiting calls
// of which e is the newest one, or 0 if it is not. In a circle, every instance of
// every model waits for a call to a model of the circle: then no instance is left
// to execute any of them. To end the newest call lets all others go on.
func circle(edges []edge, e edge) uint64 {
	waiting := map[node]map[string][]edge{} // by instance
	of := map[node]int{}
	for _, x := range edges {
		if waiting[x.caller] == nil {
			waiting[x.caller] = map[string][]edge{}
		}
		waiting[x.caller][x.instance] = append(waiting[x.caller][x.instance], x)
		of[x.caller] = x.of
	}
	stuck := map[node]bool{}
	for n, instances := range waiting {
		stuck[n] = len(instances) >= of[n]
	}
	intoStuck := func(x edge) bool {
		return slices.ContainsFunc(x.callees, func(n node) bool { return stuck[n] })
	}
	for again := true; again; {
		again = false
		for n, instances := range waiting {
			if !stuck[n] {
				continue
			}
			for _, calls := range instances {
				if !slices.ContainsFunc(calls, intoStuck) {
					stuck[n], again = false, true
					break
				}
			}
		}
	}
	if !stuck[e.caller] || !intoStuck(e) {
		return 0
	}
	state := uint64(1)
	for _, x := range edges {
		if stuck[x.caller] {
			if x.id > e.id && intoStuck(x) {
				return 0
			}
			state += x.id * 0x9E3779B97F4A7C15 // a sum, since edges come in any order
		}
	}
	return max(state, 1)
}
