package residency

import (
	"cmp"
	"slices"
)

// group is what has to leave together: a model with the ensembles that are made of it.
type group struct {
	model    *entry
	users    []*entry
	priority int   // the highest
	used     int64 // the latest
}

// evict has models leave until that many bytes are free, or are about to be, and
// reports whether they will be. spare are not to leave. With whole none leaves where all
// that could would not be enough.
func (s *step) evict(lack int64, spare []string, why Reason, whole bool) bool {
	if lack <= 0 {
		return true
	}
	victims := s.victims(spare)
	if whole && yield(victims) < lack {
		return false
	}
	for _, g := range victims {
		if g.model.doomed || g.model.state != In { // with another group
			continue
		}
		lack -= s.dismiss(g, why)
		if lack <= 0 {
			return true
		}
	}
	return false
}

// yield is how much memory comes back when all of these leave.
func yield(victims []group) (bytes int64) {
	seen := map[*entry]bool{}
	for _, g := range victims {
		for _, e := range append([]*entry{g.model}, g.users...) {
			if e.state == In && !e.doomed && !seen[e] {
				seen[e] = true
				bytes += e.bytes
			}
		}
	}
	return bytes
}

// victims returns what may leave now, in the order in which it does: lower priorities
// first, then what was used the longest time ago.
func (s *step) victims(spare []string) []group {
	var all []group
	for _, e := range s.here {
		if e.state != In || e.doomed || e.bytes == 0 {
			continue
		}
		g := group{model: e, users: s.users(e.name), priority: e.traits.Priority}
		if s.mayLeave(&g, spare) {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.used, b.used), cmp.Compare(a.model.name, b.model.name))
	})
	return all
}

// mayLeave reports whether nothing keeps a group, and completes it.
func (s *step) mayLeave(g *group, spare []string) bool {
	for _, e := range append([]*entry{g.model}, g.users...) {
		if e.state == Leaving || e.doomed { // a user on its way out
			continue
		}
		look := s.see(e.name)
		switch stays := e.since + int64(s.o.LeastStay); {
		case e.state != In || e.fixed || e.traits.Pin || look.Busy || slices.Contains(spare, e.name):
			return false
		case s.now < stays:
			s.again(stays)
			return false
		}
		g.priority = max(g.priority, e.traits.Priority)
		g.used = max(g.used, look.Used, e.since)
	}
	return true
}

// dismiss has a group leave: those that no ensemble uses at once, the others when these
// are gone, since a request of an ensemble that was taken before may need them. It
// returns how much memory that gives back.
func (s *step) dismiss(g group, why Reason) (bytes int64) {
	for _, e := range append(slices.Clone(g.users), g.model) {
		switch {
		case e.state != In || e.doomed:
			continue
		case len(s.users(e.name)) == 0:
			s.remove(e, why)
		default:
			e.doomed, e.left = true, s.now
		}
		bytes += e.bytes
	}
	return bytes
}

func (s *step) remove(e *entry, why Reason) {
	s.move(e, Leaving, why)
	e.left = s.now
	s.do(Action{Kind: Evict, Name: e.name, Why: why})
}

// reprieve has those stay of the doomed that are used again: an ensemble that was to leave
// before them has not, or somebody has loaded another one.
func (s *step) reprieve() {
	for _, e := range s.here {
		if e.doomed && slices.ContainsFunc(s.users(e.name), func(user *entry) bool { return user.state != Leaving && !user.doomed }) {
			e.doomed = false
		}
	}
}

// finish has the doomed leave whose ensembles are gone, unless somebody wants them
// again.
func (s *step) finish() {
	for _, e := range s.sorted() {
		if !e.doomed || len(s.users(e.name)) > 0 {
			continue
		}
		e.doomed = false
		if !s.see(e.name).Busy && !s.wanted(e.name) {
			s.remove(e, ForMemory)
		}
	}
}

// wanted reports whether somebody waits for a model, or for what it is a part of.
func (s *step) wanted(name string) bool {
	for _, w := range s.wants {
		if slices.Contains(s.members(w.name), name) {
			return true
		}
	}
	return false
}

// users returns the ensembles that are made of a model, directly or not, and that are
// not out, sorted.
func (m *Machine) users(name string) []*entry {
	var all []*entry
	for _, e := range m.ensembles {
		if e.state != Out && e.name != name && slices.Contains(m.members(e.name), name) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.name, b.name) })
	return all
}

// expire has models leave that nobody has asked for.
func (s *step) expire() {
	for _, e := range s.sorted() {
		if e.state != In || e.doomed || e.fixed || e.traits.Pin || e.traits.Idle <= 0 || len(s.users(e.name)) > 0 || s.wanted(e.name) {
			continue
		}
		look, idle := s.see(e.name), int64(e.traits.Idle)
		since := max(look.Used, e.since)
		switch {
		case look.Busy:
			s.again(s.now + idle)
		case s.now-since < idle:
			s.again(since + idle)
		default:
			s.remove(e, ForIdle)
		}
	}
}

// shrink has models leave while there is more memory in use than may be.
func (s *step) shrink() {
	if s.o.Limit <= 0 {
		return
	}
	used, promised := s.used()
	if over := used - promised - s.o.Limit; over > 0 && !s.evict(over, nil, ForMemory, false) {
		s.again(s.now + int64(check))
	}
}

func (s *step) sorted() []*entry {
	var all []*entry
	for _, e := range s.here {
		if e.state == In {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.name, b.name) })
	return all
}
