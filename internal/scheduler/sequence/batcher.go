package sequence

import (
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler"
)

// batcher is the state of a sequence batcher. It has no clock, no goroutine and
// no lock: an event is a method call, the time is an argument, and step says
// what is to be done. Times are those of backend.Now.
//
// A sequence is known by its key from START to END. It stands in the backlog
// until it gets a slot of an instance, which it keeps until its last request
// has been issued (oldest: executed, so that nobody is bound to an instance that
// this one still keeps busy), it has been idle for too long, or it was cancelled.
// A slot has at most one request in flight.
type batcher struct {
	max       int   // slots that a batch may have
	idleLimit int64 // ns
	iterative bool
	same      *scheduler.Compatibility
	alike     func(a, b *entry) bool // of requests that are the same: whether their states are alike; nil: always

	direct      bool
	delay       int64 // ns
	utilization float32
	preferred   []int // oldest: ascending
	depth       int   // batches that an instance may hold
	ordered     bool  // say whose turn it is: responses keep that order

	slots     int         // of each instance
	instances []*instance // of the instances, by their numbers; without slots where there is none
	free      freeSlots
	active    map[key]*sequence
	idle      line // in the order in which they became idle
	backlog   line // in order of arrival
	waiting   int  // requests in the backlog
	limit     int  // requests that the backlog may hold
	nextDue   int64
	limited   bool   // an instance needs something of the rate limiter, which is asked before a batch goes
	assigned  uint64 // correlation IDs given by the batcher
	stopping  bool   // no new sequences

	// The first batch of the direct strategy waits until so many requests stand in
	// slots, and so many in the backlog; hold is 0 once that is so.
	hold, holdBacklog int

	// over, if not nil, is told of a sequence that has ended and has nothing in
	// flight.
	over func(*sequence)

	batches scheduler.FreeList[batch]
	entries scheduler.FreeList[entry]
}

type (
	batch   = scheduler.Batch[entry]
	effects = scheduler.Effects[entry]
)

// key names a sequence. IDs that the batcher gave itself never meet those of
// clients.
type key struct {
	backend.CorrelationID
	own bool
}

// entry is one request in the queue of its sequence.
type entry struct {
	request    *infer.Request
	seq        *sequence
	slot       *slot // once it has been issued
	start, end bool
	queued     int64 // when it entered, for oldest: when it was its turn
	queueing   bool  // not yet issued or failed
	cancelled  bool  // while it was queued
	ready      bool  // oldest: it stands in its instance's line
	next       *entry

	execution execution // how the last one ended
	own       own       // the loop's
}

// execution is how one of a request ended: what done and executed are told.
type execution struct {
	again bool // the model wants to run the request once more
	gone  bool // nobody waits for the answer any more
	late  bool // it comes back after its batch has ended
}

// own is what the loop knows of an entry. The batcher does not look at it.
type own struct {
	scheduler.Waiting
	inputs int // how many the client sent
	answer *answer
}

// fail adds an entry to those that are to be answered without being executed.
func fail(fx *effects, e *entry) {
	e.next = nil
	if fx.LastFailed == nil {
		fx.Failed = e
	} else {
		fx.LastFailed.next = e
	}
	fx.LastFailed = e
}

// refusal is why enqueue does not take a request.
type refusal uint8

const (
	taken    refusal = iota
	noStart          // the sequence is unknown, and the request does not begin it
	full             // there is no free slot, and the backlog is full
	stopping         // the request begins a sequence, and there are to be no more
)

const (
	// slowLimit is how long an iterative batch of the direct strategy waits for a
	// live sequence: a slot without its request would be one whose sequence has
	// ended, for all that the model can tell.
	slowLimit = 10 * time.Second
	// lagLimit is the same for the oldest strategy, where batches are only smaller
	// for it.
	lagLimit = time.Millisecond
)

func newBatcher(size int, c *modelconfig.SequenceBatching, same *scheduler.Compatibility, instances, depth, limit int) *batcher {
	b := &batcher{
		max: max(1, size), idleLimit: int64(c.MaxIdle), iterative: c.Iterative, same: same,
		active: map[key]*sequence{}, limit: limit, depth: 1,
	}
	slots := b.max
	if o := c.Oldest; o != nil {
		if o.MaxCandidateSequences > 0 {
			slots = o.MaxCandidateSequences
		}
		b.delay, b.preferred = int64(o.MaxQueueDelay), slices.Clone(o.PreferredBatchSizes)
		if len(b.preferred) == 0 {
			b.preferred = []int{b.max}
		}
		slices.Sort(b.preferred)
		b.depth, b.ordered = min(2, max(1, depth)), o.PreserveOrdering
	} else {
		b.direct = true
		if d := c.Direct; d != nil {
			b.delay, b.utilization = int64(d.MaxQueueDelay), d.MinimumSlotUtilization
		}
	}
	b.slots = slots
	for i := range instances {
		b.join(i)
	}
	return b
}

// join says that an instance takes sequences from now on.
func (b *batcher) join(i int) {
	for len(b.instances) <= i {
		b.instances = append(b.instances, &instance{number: len(b.instances)})
	}
	l := &instance{number: i}
	b.instances[i] = l
	for n := range b.slots {
		t := &slot{instance: l, number: n}
		l.slots = append(l.slots, t)
		b.free.put(t)
	}
}

// leave says that an instance takes no further sequences, and reports whether
// any is bound to it.
func (b *batcher) leave(i int) (bound bool) {
	l := b.instances[i]
	l.leaves = true
	b.free.leave(l)
	return slices.ContainsFunc(l.slots, func(t *slot) bool { return t.seq != nil })
}

// vacant reports whether an instance that leaves has nothing to do any more, and
// forgets it then.
func (b *batcher) vacant(i int) bool {
	l := b.instances[i]
	if l.load > 0 || l.back > 0 || slices.ContainsFunc(l.slots, func(t *slot) bool { return t.seq != nil || t.running }) {
		return false
	}
	b.instances[i] = &instance{number: i}
	return true
}

// enqueue adds an entry, whose request has a correlation ID, to its sequence,
// unless it refuses it. restarted says that the request begins a sequence that
// had not ended.
func (b *batcher) enqueue(now int64, k key, e *entry, fx *effects) (_ refusal, restarted bool) {
	s := b.active[k]
	switch {
	case s == nil && !e.start:
		return noStart, false
	case b.stopping && e.start:
		return stopping, false
	case s == nil && b.free.len() == 0 || s != nil && s.slot == nil:
		if b.waiting >= b.limit {
			return full, false
		}
		b.waiting++
	}
	restarted = s != nil && e.start
	if s == nil {
		s = &sequence{key: k}
		b.active[k] = s
		// Whoever waits in the backlog has been there before; there is nobody as
		// long as a slot is free.
		if b.free.len() > 0 {
			b.free.take(s)
		} else {
			b.backlog.push(s)
		}
	}
	b.idle.remove(s)
	e.seq, e.slot, e.queued, e.queueing, e.cancelled, e.ready = s, nil, now, true, false, false
	s.push(e)
	if s.slot == nil {
		b.expect(now, s, e.request.Timeout)
	} else {
		b.turn(now, s.slot, fx)
	}
	if e.end {
		b.forget(s)
	}
	return taken, restarted
}

// expect lowers the time by which a sequence in the backlog must have a slot.
func (b *batcher) expect(now int64, s *sequence, timeout uint64) {
	if timeout == 0 || timeout > 1<<53 {
		return
	}
	due := now + int64(timeout)*1000
	if s.due == 0 || due < s.due {
		s.due = due
	}
	if b.nextDue == 0 || due < b.nextDue {
		b.nextDue = due
	}
}

// cancel says that nobody waits for the entry's answer any more. A cancelled
// request ends its sequence when it is its turn, or in the backlog at once.
func (b *batcher) cancel(e *entry, fx *effects) {
	if !e.queueing {
		return
	}
	e.cancelled = true
	if s := e.seq; s.slot == nil || s.head == e {
		b.give(s, fx)
	}
}

// done says that an instance has executed a batch, whose memory it takes back. A
// step follows unless the batcher is closed. Entries that are not in the batch
// any more are reported by executed.
func (b *batcher) done(now int64, x *batch, fx *effects) {
	l := b.instances[x.Instance]
	l.load--
	if x.Late > 0 {
		l.back, l.ended = l.back+x.Late, now
	}
	for _, e := range x.Entries {
		if e != nil {
			b.executed(now, e, fx)
		}
	}
	b.recycle(x)
}

func (b *batcher) recycle(x *batch) {
	x.Reset()
	b.batches.Put(x)
}

// executed says that a request is no longer in flight.
func (b *batcher) executed(now int64, e *entry, fx *effects) {
	s, at := e.seq, e.slot
	s.running = false
	if at != nil { // else the slot has been taken from it
		at.running, at.late = false, nil
		if e.execution.late {
			at.instance.back--
		}
	}
	how := e.execution
	e.execution = execution{}
	if how.again && !how.gone && !s.gone {
		e.start, e.end, e.slot, e.queued, e.queueing = false, false, nil, now, true
		s.pushFront(e)
	} else {
		switch {
		case s.gone:
		case how.gone:
			b.give(s, fx)
		case s.head == nil && (b.iterative || s.ended):
			b.end(s)
		}
		if how.again {
			fail(fx, e) // it is owed an answer
		} else {
			b.release(e)
		}
	}
	switch {
	case s.gone:
		b.finished(s)
	case s.head == nil && !s.ended:
		s.since = now
		b.idle.push(s)
	}
	if at != nil && at.seq != nil {
		b.turn(now, at, fx)
	}
}

// step gives up what has waited too long, hands out free slots and forms
// batches.
func (b *batcher) step(now int64, fx *effects) {
	b.expire(now, fx)
	b.reap(now)
	b.assign(now, fx)
	depth := b.depth
	if b.limited {
		depth = 1
	}
	for _, l := range b.instances {
		l.wait = 0
		if len(l.slots) == 0 || !b.endHold(l) || b.awaitBack(now, l, fx) {
			continue
		}
		if !b.limited {
			b.withdraw(l, fx) // nobody has to ask any more
		}
		for l.load < depth {
			x := b.form(now, l)
			if x == nil {
				if l.load == 0 {
					b.withdraw(l, fx)
				}
				break
			}
			if b.limited {
				b.recycle(x) // until it is its turn its requests stay in their slots
				l.asks, l.wish, fx.Asks = true, asking, true
				break
			}
			b.send(l, x, fx)
		}
	}
	b.assign(now, fx)
}

// form makes the next batch of an instance; it returns nil when there is nothing
// to run yet.
func (b *batcher) form(now int64, l *instance) *batch {
	if b.direct {
		return b.formDirect(now, l)
	}
	return b.formOldest(now, l)
}

// granted says that the rate limiter lets an instance run, for which the last
// step has asked.
func (b *batcher) granted(now int64, l *instance, fx *effects) {
	x := b.form(now, l)
	x.Asked, l.asks = true, false
	b.send(l, x, fx)
	b.assign(now, fx)
}

// withdraw takes back what an instance has asked the rate limiter for.
func (b *batcher) withdraw(l *instance, fx *effects) {
	if l.asks {
		l.asks, l.wish, fx.Asks = false, withdrawing, true
	}
}

// awaitBack has an instance's next batch wait for requests of the last one that
// come back, whose responses are on their way, and gives up those that take too
// long. It reports whether it waits.
func (b *batcher) awaitBack(now int64, l *instance, fx *effects) bool {
	if l.back <= 0 || l.load > 0 {
		return false
	}
	limit := int64(slowLimit)
	if !b.direct {
		limit = int64(lagLimit)
	}
	if due := l.ended + limit; now < due {
		l.wait = due
		return true
	}
	if b.direct {
		b.giveUpSlow(l, fx)
	}
	return false
}

// giveUpSlow gives up the sequences whose clients do not take the responses.
func (b *batcher) giveUpSlow(l *instance, fx *effects) {
	for _, t := range l.slots {
		e := t.late
		if e == nil {
			continue
		}
		t.running, t.late = false, nil
		e.slot = nil
		l.back--
		if s := e.seq; !s.gone {
			s.slow = true
			b.give(s, fx)
		}
	}
}

// send issues the entries of a batch.
func (b *batcher) send(l *instance, x *batch, fx *effects) {
	l.load++
	x.Instance = l.number
	for _, e := range x.Entries {
		if e == nil {
			continue
		}
		s := e.seq
		s.pop()
		e.slot, e.queueing = s.slot, false
		s.slot.running, s.running = true, true
		if b.iterative {
			s.slot.late = e
		}
		if e.ready {
			e.ready = false
			l.ready.remove(e.slot)
		}
		if s.ended && s.head == nil && b.direct {
			b.end(s)
		} else if s.head != nil && s.head.cancelled {
			b.give(s, fx)
		}
	}
	fx.Send(x)
}

// wake returns when step is to be called again if nothing happens before; 0
// for never.
func (b *batcher) wake() int64 {
	at := b.nextDue
	sooner := func(t int64) {
		if t != 0 && (at == 0 || t < at) {
			at = t
		}
	}
	if s := b.idle.head; s != nil {
		sooner(s.since + b.idleLimit)
	}
	for _, l := range b.instances {
		sooner(l.wait)
	}
	return at
}

// drain ends all sequences and returns the requests that were queued, linked by
// next.
func (b *batcher) drain(fx *effects) *entry {
	for _, l := range b.instances {
		for _, t := range l.slots {
			if t.seq != nil {
				b.give(t.seq, fx)
			}
		}
	}
	for b.backlog.head != nil {
		b.give(b.backlog.head, fx)
	}
	b.nextDue = 0
	queued := fx.Failed
	fx.Failed, fx.LastFailed = nil, nil
	return queued
}

// open reports whether there is a sequence that has not ended.
func (b *batcher) open() bool { return len(b.active) > 0 }

// release takes back an entry that only late cancellations may still know.
func (b *batcher) release(e *entry) {
	*e = entry{own: own{Waiting: e.own.Reused()}}
	b.entries.Put(e)
}
