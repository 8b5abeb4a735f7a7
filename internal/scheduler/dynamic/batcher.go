package dynamic

import (
	"slices"

	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler"
)

// batcher is the state of a dynamic batcher. It has no clock, no goroutine and
// no lock: an event is a method call, the time is an argument, and step says
// what is to be done. Times are those of backend.Now.
type batcher struct {
	queue
	pace
	strategy
	goal
	max       int   // requests' sizes add up to no more
	preferred []int // ascending
	delay     int64 // ns
	same      *scheduler.Compatibility
	hold      int // do nothing until so many are queued; 0 once reached

	load     []int  // batches each instance holds, by its number
	away     []bool // instances that get no more; by number
	here     int    // how many do
	recent   uint64 // requests of the last four batches, 16 bits each
	prefetch bool   // a busy instance may hold a second batch, see ahead
	// up says whether an instance can begin something, second whether one that is
	// busy may have another batch; nil: all.
	up, second func(instance int) bool
	// placing, if not nil, is told where a batch goes; see Batch.Placed.
	placing func(instance int) func()

	arrived uint64 // how many entries were queued so far
	wait    int64  // when the oldest entry has waited long enough for its batch; 0 for never
	limited bool   // an instance needs something of the rate limiter, which is asked before a batch goes
	wants   bool   // it has been asked, and its answer not been used
	asked   formed // for what the last step has asked
	batches scheduler.FreeList[batch]
	entries scheduler.FreeList[entry]
}

type (
	batch   = scheduler.Batch[entry]
	effects = scheduler.Effects[entry]
)

func newBatcher(size int, c *modelconfig.DynamicBatching, same *scheduler.Compatibility, instances, depth, hold int) *batcher {
	b := &batcher{
		max: max(1, size), preferred: slices.Clone(c.PreferredBatchSizes), delay: int64(c.MaxQueueDelay),
		same: same, hold: hold, load: make([]int, instances),
	}
	if len(b.preferred) == 0 {
		b.preferred = []int{b.max}
	}
	slices.Sort(b.preferred)
	b.levels = make([]level, max(1, min(c.PriorityLevels, maxLevels)))
	for i := range b.levels {
		p, ok := c.Policies[uint64(i+1)]
		if !ok || c.PriorityLevels == 0 {
			p = c.DefaultPolicy
		}
		b.levels[i].policy = p
	}
	// Otherwise requests must stay where the policy sees them.
	free := c.PriorityLevels == 0 && unlimited(c.DefaultPolicy)
	b.prefetch = depth > 1 && free
	b.patient = free && b.delay == 0 && b.preferred[0] >= b.max
	b.ended, b.away, b.here = make([]int64, instances), make([]bool, instances), instances
	return b
}

// change says that instances have come, or get no more.
func (b *batcher) change(come, leave []int) {
	for _, i := range come {
		for len(b.load) <= i {
			b.load, b.ended, b.away = append(b.load, 0), append(b.ended, 0), append(b.away, true)
		}
		b.away[i], b.ended[i] = false, 0
	}
	for _, i := range leave {
		b.away[i] = true
	}
	b.here += len(come) - len(leave)
}

// maxLevels bounds the number of priority levels kept apart; what is above it
// shares the last one.
const maxLevels = 1024

// unlimited reports whether a policy never looks at a queued request.
func unlimited(p modelconfig.QueuePolicy) bool {
	return p.DefaultTimeout == 0 && !p.AllowTimeoutOverride && p.MaxQueueSize == 0
}

// enqueue adds an entry whose request has a valid priority; false means that
// its level is full.
func (b *batcher) enqueue(now int64, e *entry) bool {
	r := e.request
	e.size, e.queued, e.deadline, e.heap, e.level = r.Size(), now, 0, -1, 0
	if len(b.levels) > 1 && r.Priority > 0 {
		e.level = int(min(r.Priority, uint64(len(b.levels)))) - 1
	}
	p := &b.levels[e.level].policy
	timeout := int64(p.DefaultTimeout)
	// An override can only shorten, and does nothing to a level without timeout.
	if p.AllowTimeoutOverride && r.Timeout > 0 && r.Timeout < uint64(timeout)/1000 {
		timeout = int64(r.Timeout) * 1000
	}
	if b.Goal != nil {
		timeout = b.Limit() // then it is late at any rate
	}
	if timeout > 0 {
		e.deadline = now + timeout
	}
	b.arrived++
	e.number = b.arrived
	return b.push(e)
}

// cancel takes an entry out of the queue; false means that it has left.
func (b *batcher) cancel(e *entry) bool {
	if e.list == nil {
		return false
	}
	b.remove(e)
	return true
}

// done says that an instance has finished a batch, or given it back, whose
// memory it takes. A step follows.
func (b *batcher) done(now int64, x *batch) {
	b.load[x.Instance]--
	if x.Back {
		b.running -= len(x.Entries)
		for _, e := range x.Entries {
			if e.request != nil {
				b.putBack(e)
			}
		}
	} else {
		b.finished(now, x)
	}
	for _, e := range x.Entries {
		if e.list == nil {
			b.free(e)
		}
	}
	x.Reset()
	b.batches.Put(x)
}

// step expires what is due and sends off batches.
func (b *batcher) step(now int64, fx *effects) {
	b.expire(now, fx)
	b.wait = 0
	if !b.limited {
		b.withdraw(fx) // nobody has to ask any more
	}
	b.unsure = false
	if b.len > 0 && b.len >= b.hold {
		b.hold = 0
		b.sendAll(now, fx)
	}
	b.rest(fx)
}

// granted says that the rate limiter lets an idle instance run, for which the
// last step has asked.
func (b *batcher) granted(now int64, instance int, fx *effects) {
	b.send(now, instance, b.asked, fx)
	b.sendAll(now, fx)
	b.rest(fx)
}

// rest ends a step.
func (b *batcher) rest(fx *effects) {
	b.fresh = false
	if b.len == 0 || b.wait != 0 || b.unsure {
		b.withdraw(fx) // those that wanted to run have left the queue
	}
}

// withdraw takes back what the rate limiter has been asked for.
func (b *batcher) withdraw(fx *effects) {
	if b.wants {
		b.wants, fx.Withdraws = false, true
	}
}

// sendAll sends off what can go now, up to the first batch for which the rate
// limiter has to be asked.
func (b *batcher) sendAll(now int64, fx *effects) {
	for b.len > 0 {
		slot, idle := b.pick()
		if slot < 0 {
			return
		}
		most := b.most(now, fx)
		if most == 0 {
			return
		}
		f := b.form(now, most)
		if f.asks {
			b.ask()
			return
		}
		if !idle && !b.ahead(f) {
			return
		}
		if f.wait != 0 {
			b.wait = f.wait
			return
		}
		if b.limited {
			// While it is nobody's turn the requests stay in the queue, where they may
			// time out, be cancelled and be joined by others.
			b.wants, b.asked, fx.Asks = true, f, true
			return
		}
		b.send(now, slot, f, fx)
	}
}

func (b *batcher) idle(i int) bool {
	return i < len(b.load) && b.load[i] == 0 && !b.away[i] && (b.up == nil || b.up(i))
}

// moreComing reports whether an idle instance would take a request that has
// just come, and one of the last batches held several: more are on their way.
func (b *batcher) moreComing() bool {
	if b.recent&^0x0001_0001_0001_0001 == 0 {
		return false
	}
	_, idle := b.pick()
	return idle
}

// wake returns when step is to be called again if nothing happens before; 0
// for never.
func (b *batcher) wake() int64 {
	if len(b.deadlines) == 0 {
		return b.wait
	}
	if d := b.deadlines[0].deadline; b.wait == 0 || d < b.wait {
		return d
	}
	return b.wait
}

// expire refuses or puts back the entries whose time is up.
func (b *batcher) expire(now int64, fx *effects) {
	for len(b.deadlines) > 0 && b.deadlines[0].deadline <= now {
		e := b.deadlines[0]
		l := &b.levels[e.level]
		b.remove(e)
		if l.policy.Action == modelconfig.Delay {
			l.delayed.push(e)
			b.len++
			b.waiting += e.size
			continue
		}
		if b.Goal != nil {
			b.Dropped()
		}
		b.fail(e, fx)
	}
}

// fail has an entry answered that has left the queue.
func (b *batcher) fail(e *entry, fx *effects) {
	if fx.LastFailed == nil {
		fx.Failed = e
	} else {
		fx.LastFailed.next = e
	}
	fx.LastFailed = e
}

// pick returns the instance for the next batch: an idle one, else, with
// prefetch, a busy one with room; -1 for none.
func (b *batcher) pick() (slot int, idle bool) {
	slot = -1
	for i, n := range b.load {
		switch {
		case n > 1 || b.away[i] || b.up != nil && !b.up(i):
		case n == 0:
			return i, true
		case slot < 0 && b.prefetch && !b.limited && (b.second == nil || b.second(i)):
			slot = i
		}
	}
	return slot, false
}

// send takes the first entries out of the queue, as a batch for an instance.
func (b *batcher) send(now int64, slot int, f formed, fx *effects) {
	x := b.batches.Take()
	x.Instance, x.Size, x.Sent, x.Reason, x.Asked = slot, f.size, now, f.reason, b.limited
	if b.placing != nil {
		x.Placed = b.placing(slot)
	}
	b.running += f.count
	for range f.count {
		e := b.first()
		b.remove(e)
		x.Entries = append(x.Entries, e)
	}
	b.sent(now, slot, f.size)
	b.recent = b.recent<<16 | uint64(min(f.count, 0xFFFF))
	b.load[slot]++
	fx.Send(x)
}

// drain empties the queue and returns what was in it, linked by next, in order.
func (b *batcher) drain(fx *effects) *entry {
	var head, tail *entry
	for e := b.first(); e != nil; e = b.first() {
		b.remove(e)
		if tail == nil {
			head = e
		} else {
			tail.next = e
		}
		tail = e
	}
	b.wait = 0
	b.withdraw(fx)
	return head
}

// free takes back an entry that has left the queue and that only late
// cancellations may still know.
func (b *batcher) free(e *entry) {
	*e = entry{own: e.own.Reused()}
	b.entries.Put(e)
}
