package residency

import (
	"cmp"
	"slices"
	"time"
)

// Look is what a model that is in does at the moment.
type Look struct {
	// Bytes is the memory that it has; 0 where that is not known.
	Bytes int64
	// Busy says that it has requests, or sequences that have not ended.
	Busy bool
	// Used is when the last request came.
	Used int64
}

// Kind is what is to be done.
type Kind uint8

// The kinds of actions.
const (
	Read   Kind = iota // read the model, without loading it; ends with Machine.Read
	Load               // ends with Loaded or Failed
	Evict              // unload it; ends with Unloaded or Kept
	Answer             // tell the waiters that the model is in, and have Came called for each, or why not
)

// Action is one thing to be done.
type Action struct {
	Kind Kind
	Name string
	// Inside says of a load or a read that a model waits for it.
	Inside bool
	// Why is the reason of an eviction.
	Why Reason
	// Waiters are those to be answered; with Err nil the model is in. Failure is the
	// error of the load where that has failed.
	Waiters []uint64
	Err     error
	Failure error
}

const (
	// glance is after how long busy models are looked at again while a load waits for
	// one to become idle.
	glance = 20 * time.Millisecond
	// check is the same while there is too much memory in use and nobody waits.
	check = time.Second
	// hold is how long memory is kept for a model that others keep out, while those who come
	// behind it wait; and how long one that leaves is relied on to have left soon.
	hold = 10 * time.Second
)

// step is one Step.
type step struct {
	*Machine
	now     int64
	look    func(name string) Look
	looks   map[string]Look
	actions []Action
	next    int64
}

// Step says what is to be done now, and when to ask again if nothing happens before;
// 0 for never. look is asked about models that are in.
func (m *Machine) Step(now int64, look func(name string) Look) (actions []Action, next int64) {
	s := &step{Machine: m, now: now, look: look, looks: map[string]Look{}}
	s.reprieve()
	for _, e := range m.here {
		if e.state == In {
			e.bytes, e.measured = cmp.Or(s.see(e.name).Bytes, e.files), true
		}
	}
	order := m.order()
	for _, w := range order {
		s.answer(w)
	}
	s.finish()
	for _, w := range order {
		if m.wants[w.name] == w && !s.serve(w) {
			break
		}
	}
	s.expire()
	s.shrink()
	return s.actions, s.next
}

// again asks for a Step at that moment, or before.
func (s *step) again(at int64) {
	if s.next == 0 || at < s.next {
		s.next = at
	}
}

func (s *step) see(name string) Look {
	l, ok := s.looks[name]
	if !ok {
		l = s.look(name)
		s.looks[name] = l
	}
	l.Busy = l.Busy || s.entry(name).arriving > 0
	return l
}

func (s *step) do(a Action) { s.actions = append(s.actions, a) }

// tell answers who waits for a model, and forgets that they do.
func (s *step) tell(w *want, err, failure error) {
	a := Action{Kind: Answer, Name: w.name, Err: err, Failure: failure}
	for id, caller := range w.waiters {
		a.Waiters = append(a.Waiters, id)
		if caller == "" {
			s.waiting--
		}
	}
	slices.Sort(a.Waiters)
	clear(w.waiters)
	if !w.reading {
		delete(s.wants, w.name)
	}
	if len(a.Waiters) > 0 {
		s.do(a)
	}
	if err == nil {
		s.entry(w.name).arriving += len(a.Waiters)
	}
}

// answer answers those who wait for a model that is in, or that is not to be had.
func (s *step) answer(w *want) {
	e := s.entry(w.name)
	switch {
	case e.state == In:
		s.tell(w, nil, nil)
	case e.state != Out:
	case e.taken:
		s.tell(w, ErrTakenOut, nil)
	case e.failure != nil && s.now < e.retry:
		s.tell(w, s.failed(e, s.now), e.failure)
	}
}

// serve takes a want one step further. It returns false when those behind must wait
// too: no load may begin, or memory is being made free for this one.
func (s *step) serve(w *want) bool {
	e, inside := s.entry(w.name), w.inside()
	if e.state != Out || w.reading || len(w.waiters) == 0 {
		return true
	}
	if !inside && s.running() >= s.o.Loads {
		return false
	}
	if !e.read {
		if w.reading = true; !inside {
			s.reads[w.name] = s.now
		}
		s.do(Action{Kind: Read, Name: w.name, Inside: inside})
		return true
	}
	members := s.members(w.name)
	var need, likely int64
	typical := s.typical()
	var out []*entry
	for _, name := range members {
		switch part := s.entry(name); part.state {
		case Loading, Leaving:
			return true // its end is an event; others need not wait for it
		case In:
			part.doomed = false
		default:
			need += part.bytes
			if likely += part.bytes; !part.measured && len(part.parts) == 0 {
				likely += max(0, typical-part.bytes)
			}
			out = append(out, part)
		}
	}
	ok, hopeless := s.room(w, need, likely, members)
	if hopeless != nil {
		s.counts.RefusedMemory++
		s.tell(w, s.noRoom(w.name, need, *hopeless), nil)
		return true
	}
	if !ok {
		return s.late(w)
	}
	l := &load{inside: inside, began: s.now}
	used, _ := s.used()
	for _, part := range out {
		if !part.measured && len(part.parts) == 0 && used+likely <= s.o.Limit {
			part.bytes = max(part.bytes, typical) // until it has been measured
		}
		s.move(part, Loading, part.why)
		l.members = append(l.members, part.name)
	}
	s.loads[w.name] = l
	s.do(Action{Kind: Load, Name: w.name, Inside: inside})
	return true
}

// running counts the loads and reads for requests from outside, but for those that have
// lasted for so long that others need not wait for them.
func (s *step) running() int {
	n := 0
	count := func(began int64) {
		switch over := began + int64(s.o.Patience); {
		case s.o.Patience <= 0:
			n++
		case s.now < over:
			n++
			s.again(over)
		}
	}
	for _, began := range s.reads {
		count(began)
	}
	for _, l := range s.loads {
		if !l.inside {
			count(l.began)
		}
	}
	return n
}

// late reports whether a model has been kept out for so long that those who come behind
// it need not wait any more.
func (s *step) late(w *want) bool { return w.blocked != 0 && s.now-w.blocked >= int64(hold) }

// members returns a model with all that it is made of, sorted.
func (m *Machine) members(name string) []string {
	all := []string{name}
	for i := 0; i < len(all); i++ {
		for _, part := range m.entry(all[i]).parts {
			if !slices.Contains(all, part) {
				all = append(all, part)
			}
		}
	}
	slices.Sort(all)
	return all
}

// used is what all models have, or are about to have; promised is the part of it that
// is being given back. A model that has been leaving for long may do so for hours.
func (s *step) used() (used, promised int64) {
	for _, e := range s.here {
		if e.state != Out {
			used += e.bytes
		}
		if (e.state == Leaving || e.doomed) && s.now-e.left < int64(hold) {
			promised += e.bytes
		}
	}
	return used, promised
}

// typical is what models have on average that are in: one that has never been may need
// more than the size of its files, as an interpreter does.
func (s *step) typical() int64 {
	var sum, n int64
	for _, e := range s.here {
		if e.state == In && e.bytes > 0 {
			sum, n = sum+e.bytes, n+1
		}
	}
	return sum / max(1, n)
}

// room reports whether there is memory for a load, and begins to make it: for what the
// models need at least, and as far as it can be had for what they are likely to need.
// hopeless is how many bytes stand in the way for good, where that is so.
func (s *step) room(w *want, need, likely int64, members []string) (ok bool, hopeless *int64) {
	if s.o.Limit <= 0 || likely == 0 {
		return true, nil
	}
	if s.late(w) {
		likely = need
	}
	used, promised := s.used()
	if used+likely <= s.o.Limit {
		return true, nil
	}
	inside, stays := w.inside(), int64(0)
	for _, e := range s.here {
		if e.state != Out && (s.stays(e) || slices.Contains(members, e.name) || inside && s.stuck(e.name)) {
			stays += e.bytes
		}
	}
	if stays+need > s.o.Limit {
		return false, &stays
	}
	need = min(likely, s.o.Limit-stays)
	if used+need <= s.o.Limit {
		return true, nil
	}
	if w.blocked == 0 {
		w.blocked = s.now
	}
	if s.evict(used-promised+need-s.o.Limit, members, ForMemory, s.late(w)) {
		s.again(s.now + int64(hold)) // what leaves is enough, and its end an event, if it ends
	} else {
		s.again(s.now + int64(glance))
	}
	return false, nil
}

// stays reports whether a model that is in, or comes in, is never evicted.
func (s *step) stays(e *entry) bool {
	if e.fixed || e.traits.Pin {
		return true
	}
	return slices.ContainsFunc(s.users(e.name), func(user *entry) bool { return user.fixed || user.traits.Pin })
}

// stuck reports whether a model works on a request that waits for a load that has not
// begun: it cannot end before.
func (s *step) stuck(name string) bool {
	for _, w := range s.wants {
		if s.entry(w.name).state == Loading {
			continue
		}
		for _, caller := range w.waiters {
			if caller == name {
				return true
			}
		}
	}
	return false
}
