package ratelimit

// Add adds instances to a group, by their numbers, which no other instance of it
// has. When one of them needs more than there is, nothing has changed.
func (g *Group) Add(all map[int]Instance) error {
	l := g.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	added := make([]*instance, 0, len(all))
	for i, in := range all {
		for len(g.instances) <= i {
			g.instances = append(g.instances, nil)
		}
		n := &instance{group: g, number: i, priority: int64(max(1, in.Priority))}
		n.pass = loading * n.priority
		for k, count := range needs(in) {
			n.needs = append(n.needs, need{l.pool(k), count})
		}
		for _, need := range n.needs {
			need.pool.add(need.count)
		}
		g.instances[i] = n
		if len(n.needs) > 0 {
			g.needy.Add(1)
		}
		added = append(added, n)
	}
	err := l.fill()
	if err != nil {
		for _, n := range added {
			l.remove(n)
			g.instances[n.number] = nil
		}
		_ = l.fill() // as before, which was within the limits
	}
	return err
}

// Needs reports whether an instance needs something. A group that is nil has none
// that does.
func (g *Group) Needs(i int) bool {
	if g == nil {
		return false
	}
	g.limiter.mu.Lock()
	defer g.limiter.mu.Unlock()
	return i < len(g.instances) && g.instances[i] != nil && len(g.instances[i].needs) > 0
}

// Remove takes an instance out that has nothing to run any more. A group that is
// nil has none.
func (g *Group) Remove(i int) {
	if g == nil {
		return
	}
	var others Turns
	l := g.limiter
	l.mu.Lock()
	if !g.closed && i < len(g.instances) && g.instances[i] != nil {
		l.remove(g.instances[i])
		g.instances[i] = nil
		_ = l.fill() // less is needed than before
		l.give(&others)
	}
	l.mu.Unlock()
	others.Tell()
}

// remove forgets an instance, which may be nil, and what it holds and needs.
func (l *Limiter) remove(in *instance) {
	if in == nil {
		return
	}
	l.leave(in)
	if in.holds {
		in.free()
	}
	if len(in.needs) > 0 {
		in.group.needy.Add(-1)
	}
	for _, n := range in.needs {
		if n.pool.remove(n.count) {
			delete(l.pools, n.pool.key)
		}
	}
}
