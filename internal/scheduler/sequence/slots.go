package sequence

// sequence is what is known of one correlation ID between START and END.
type sequence struct {
	key        key
	slot       *slot // nil while it stands in the backlog, and when it is over
	head, tail *entry
	len        int
	running    bool
	ended      bool  // no further requests belong to it
	gone       bool  // it has neither a slot nor a place in the backlog
	since      int64 // when it became idle
	due        int64 // by when it must have left the backlog; 0 for never
	expired    bool
	slow       bool // its client did not take the responses

	next, prev *sequence
	line       *line

	own kept // the loop's
}

// kept is what the loop knows of a sequence. The batcher does not look at it.
type kept struct {
	state *state // nil before the first request runs
	life  uint64 // of the instance, when a request ran last
}

func (s *sequence) push(e *entry) {
	e.next = nil
	if s.tail == nil {
		s.head = e
	} else {
		s.tail.next = e
	}
	s.tail = e
	s.len++
}

func (s *sequence) pushFront(e *entry) {
	e.next = s.head
	s.head = e
	if s.tail == nil {
		s.tail = e
	}
	s.len++
}

func (s *sequence) pop() *entry {
	e := s.head
	s.head = e.next
	if s.head == nil {
		s.tail = nil
	}
	e.next = nil
	s.len--
	return e
}

// line is a FIFO from which sequences may leave anywhere.
type line struct{ head, tail *sequence }

func (l *line) push(s *sequence) {
	s.line, s.prev, s.next = l, l.tail, nil
	if l.tail == nil {
		l.head = s
	} else {
		l.tail.next = s
	}
	l.tail = s
}

// remove takes s out if it stands in this line.
func (l *line) remove(s *sequence) {
	if s.line != l {
		return
	}
	if s.prev == nil {
		l.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.next, s.prev, s.line = nil, nil, nil
}

// instance is one of those that run batches.
type instance struct {
	number int
	slots  []*slot
	load   int   // batches that it holds
	wait   int64 // when the oldest request has waited long enough; 0 for never
	ready  turns // oldest: slots whose request may be issued
	back   int   // iterative: requests that have been executed and come back once their responses are delivered
	ended  int64 // when the batch that they were in ended
	leaves bool  // its slots go to no other sequence
	asks   bool  // it has asked the rate limiter, which has not let it run
	wish   wish  // what the last step wants of the rate limiter
	hold   int   // oldest: how many requests the first batch waits for; 0 once they have been there
}

// wish is what an instance wants of the rate limiter.
type wish uint8

const (
	nothing wish = iota
	asking
	withdrawing
)

// slot is a place for one sequence on an instance.
type slot struct {
	instance *instance
	number   int
	seq      *sequence
	running  bool   // a request of it is in flight
	late     *entry // that request, when it comes back after its batch

	next, prev *slot // in instance.ready
	queued     bool
}

// turns is the order in which the slots of an instance got a request.
type turns struct{ head, tail *slot }

func (t *turns) push(s *slot) {
	s.queued, s.prev, s.next = true, t.tail, nil
	if t.tail == nil {
		t.head = s
	} else {
		t.tail.next = s
	}
	t.tail = s
}

func (t *turns) remove(s *slot) {
	if !s.queued {
		return
	}
	if s.prev == nil {
		t.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		t.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.next, s.prev, s.queued = nil, nil, false
}

// freeSlots is a binary heap of the slots without a sequence: the lowest number
// on top, among equals the lowest instance, so that sequences spread over the
// instances.
type freeSlots struct{ heap []*slot }

// leave takes out the slots of an instance that leaves.
func (f *freeSlots) leave(l *instance) {
	left := f.heap
	f.heap = nil
	for _, s := range left {
		if s.instance != l {
			f.put(s)
		}
	}
}

func (f *freeSlots) len() int { return len(f.heap) }

func (f *freeSlots) less(i, j int) bool {
	a, b := f.heap[i], f.heap[j]
	if a.number != b.number {
		return a.number < b.number
	}
	return a.instance.number < b.instance.number
}

func (f *freeSlots) put(s *slot) {
	f.heap = append(f.heap, s)
	for i := len(f.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !f.less(i, up) {
			return
		}
		f.heap[i], f.heap[up] = f.heap[up], f.heap[i]
		i = up
	}
}

// take gives the first free slot to a sequence.
func (f *freeSlots) take(s *sequence) {
	h := f.heap
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = nil
	f.heap = h[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			break
		}
		if c+1 < last && f.less(c+1, c) {
			c++
		}
		if !f.less(c, i) {
			break
		}
		f.heap[i], f.heap[c] = f.heap[c], f.heap[i]
		i = c
	}
	s.slot, first.seq = first, s
}

// forget ends the mapping of the sequence's key to it.
func (b *batcher) forget(s *sequence) {
	s.ended = true
	if b.active[s.key] == s {
		delete(b.active, s.key)
	}
}

// end takes away the slot or the place in the backlog.
func (b *batcher) end(s *sequence) {
	b.forget(s)
	b.idle.remove(s)
	if s.line == &b.backlog {
		b.backlog.remove(s)
		b.waiting -= s.len
	}
	s.gone = true
	if t := s.slot; t != nil {
		t.instance.ready.remove(t)
		t.seq, s.slot = nil, nil
		if !t.instance.leaves {
			b.free.put(t)
		}
	}
	b.finished(s)
}

func (b *batcher) finished(s *sequence) {
	if !s.running && b.over != nil {
		b.over(s)
	}
}

// give gives up a sequence: its queued requests fail.
func (b *batcher) give(s *sequence, fx *effects) {
	b.end(s)
	for s.head != nil {
		e := s.pop()
		e.queueing, e.ready = false, false
		fail(fx, e)
	}
}

// expire gives up the sequences that have been in the backlog for too long.
func (b *batcher) expire(now int64, fx *effects) {
	if b.nextDue == 0 || now < b.nextDue {
		return
	}
	b.nextDue = 0
	for s := b.backlog.head; s != nil; {
		next := s.next
		switch {
		case s.due == 0:
		case s.due <= now:
			s.expired = true
			b.give(s, fx)
		case b.nextDue == 0 || s.due < b.nextDue:
			b.nextDue = s.due
		}
		s = next
	}
}

// reap ends the sequences that have been idle for too long.
func (b *batcher) reap(now int64) {
	for s := b.idle.head; s != nil && s.since+b.idleLimit <= now; s = b.idle.head {
		b.end(s)
	}
}

// assign gives free slots to the sequences of the backlog, and finds out whose
// turn it is in the slots.
func (b *batcher) assign(now int64, fx *effects) {
	for b.backlog.head != nil && b.free.len() > 0 {
		s := b.backlog.head
		b.backlog.remove(s)
		b.waiting -= s.len
		b.free.take(s)
		s.due = 0
		b.turn(now, s.slot, fx)
	}
}

// turn lines up a slot of the oldest strategy when its next request may be
// issued.
func (b *batcher) turn(now int64, t *slot, fx *effects) {
	if b.direct || t.queued || t.running || t.seq == nil || t.seq.head == nil {
		return
	}
	e := t.seq.head
	e.ready, e.queued = true, now
	t.instance.ready.push(t)
	if b.ordered {
		fx.Ordered = append(fx.Ordered, e)
	}
}
