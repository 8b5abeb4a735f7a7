package sequence

import (
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/internal/stats"
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

	direct      bool
	delay       int64 // ns
	utilization float32
	preferred   []int // oldest: ascending
	depth       int   // batches that an instance may hold
	ordered     bool  // say whose turn it is: responses keep that order

	lanes    []*lane
	free     freeSlots
	active   map[key]*sequence
	idle     line // in the order in which they became idle
	backlog  line // in order of arrival
	waiting  int  // requests in the backlog
	limit    int  // requests that the backlog may hold
	nextDue  int64
	limits   *ratelimit.Group // of the instances; nil without a rate limiter
	assigned uint64           // correlation IDs given by the batcher
	stopping bool             // no new sequences

	// over, if not nil, is told of a sequence that has ended and has nothing in
	// flight.
	over func(*sequence)

	batches *batch // free ones
	entries *entry // free ones, linked by next
}

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
	cancelled  bool
	ready      bool // oldest: it stands in its lane's line
	next       *entry

	// The rest belongs to the loop.
	life    uint64 // how often the value has been used, so that late events are told apart
	stop    func() bool
	pending bool // counted as pending
	ticket  *scheduler.Ticket
	inputs  int // how many the client sent
	answer  *answer
	again   bool // the model wants to run the request once more
	late    bool // it comes back after its batch has ended
}

// effects is what is to be done after a step, in linked lists so that nothing
// is allocated for them.
type effects struct {
	start, last *batch // to execute, in order
	failed      *entry // to answer, linked by next, in order
	lastFailed  *entry
	turn        []*entry        // ordered: whose turn it has become
	turns       ratelimit.Turns // to tell
}

// fail adds an entry to those that are to be answered without being executed.
func (fx *effects) fail(e *entry) {
	e.next = nil
	if fx.lastFailed == nil {
		fx.failed = e
	} else {
		fx.lastFailed.next = e
	}
	fx.lastFailed = e
}

// batch is a set of entries on its way to an instance. With the direct strategy
// nil stands for a slot without a request.
type batch struct {
	instance int
	entries  []*entry
	reason   stats.Closing
	late     int // entries that come back after the batch has ended
	next     *batch

	requests []*infer.Request // the loop's
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
	for i := range instances {
		b.lanes = append(b.lanes, &lane{number: i})
	}
	b.free.init(b.lanes, slots)
	return b
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

// done says that an instance has executed a batch, whose memory it takes back,
// and takes the next step unless the batcher is closed. Entries that are not in
// the batch any more are reported by executed.
func (b *batcher) done(now int64, x *batch, open bool, fx *effects) {
	instance := x.instance
	l := b.lanes[instance]
	l.load--
	if x.late > 0 {
		l.back, l.ended = l.back+x.late, now
	}
	for i, e := range x.entries {
		x.entries[i] = nil
		if e != nil {
			b.executed(now, e, fx)
		}
	}
	clear(x.requests)
	x.requests = x.requests[:0]
	b.recycle(x)
	if open {
		b.step(now, fx)
	}
	// Asking comes before giving back, so that others do not get in between.
	if b.limits != nil && b.limits.Release(instance, &fx.turns) && open {
		b.step(now, fx)
	}
}

func (b *batcher) recycle(x *batch) {
	clear(x.entries)
	x.entries, x.late, x.next = x.entries[:0], 0, b.batches
	b.batches = x
}

// executed says that a request is no longer in flight.
func (b *batcher) executed(now int64, e *entry, fx *effects) {
	s, at := e.seq, e.slot
	s.running = false
	if at != nil { // else the slot has been taken from it
		at.running, at.late = false, nil
		if e.late {
			at.lane.back--
		}
	}
	e.late = false
	if e.again && !e.cancelled && !s.gone {
		e.start, e.end, e.again, e.slot, e.queued, e.queueing = false, false, false, nil, now, true
		s.pushFront(e)
	} else {
		switch {
		case s.gone:
		case e.cancelled:
			b.give(s, fx)
		case s.head == nil && (b.iterative || s.ended):
			b.end(s)
		}
		if e.again {
			fx.fail(e) // it is owed an answer
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
	b.place(now, fx)
	for _, l := range b.lanes {
		l.wait = 0
		if b.waits(now, l, fx) {
			continue
		}
		for l.load < b.depth {
			var x *batch
			if b.direct {
				x = b.formDirect(now, l)
			} else {
				x = b.formOldest(now, l)
			}
			if x == nil {
				if b.limits != nil && l.load == 0 {
					b.limits.WithdrawOne(l.number, &fx.turns)
				}
				break
			}
			if b.limits != nil && !b.limits.Ask(l.number) {
				b.recycle(x) // until then its requests stay in their slots
				break
			}
			b.send(l, x, fx)
		}
	}
	b.place(now, fx)
}

// waits reports whether an instance's next batch has to wait for requests of
// the last one that come back: their responses are on their way.
func (b *batcher) waits(now int64, l *lane, fx *effects) bool {
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
		b.forsake(l, fx)
	}
	return false
}

// forsake gives up the sequences whose clients do not take the responses.
func (b *batcher) forsake(l *lane, fx *effects) {
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
func (b *batcher) send(l *lane, x *batch, fx *effects) {
	l.load++
	x.instance, x.next = l.number, nil
	for _, e := range x.entries {
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
	if fx.last == nil {
		fx.start = x
	} else {
		fx.last.next = x
	}
	fx.last = x
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
	for _, l := range b.lanes {
		sooner(l.wait)
	}
	return at
}

// drain ends all sequences and returns the requests that were queued, linked by
// next.
func (b *batcher) drain(fx *effects) *entry {
	for _, l := range b.lanes {
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
	if b.limits != nil {
		b.limits.Withdraw(&fx.turns)
	}
	return fx.failed
}

// open reports whether there is a sequence that has not ended.
func (b *batcher) open() bool { return len(b.active) > 0 }

// entry returns a value for a new request.
func (b *batcher) entry() *entry {
	e := b.entries
	if e == nil {
		return &entry{}
	}
	b.entries, e.next = e.next, nil
	return e
}

// release takes back an entry that only late cancellations may still know.
func (b *batcher) release(e *entry) {
	*e = entry{life: e.life + 1, next: b.entries}
	b.entries = e
}

func (b *batcher) batch() *batch {
	x := b.batches
	if x == nil {
		return &batch{}
	}
	b.batches = x.next
	return x
}
