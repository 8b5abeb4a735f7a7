package instance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/tensor"
)

// slot is one instance and how many batches it holds.
type slot struct {
	life  atomic.Pointer[life] // nil until the instance is made
	load  atomic.Int32
	ahead atomic.Int32 // batches that it may hold before it has begun them; it says so
	open  atomic.Int32 // of load, those that its model has left to answer later
	downs atomic.Int32 // reasons why it cannot begin anything, and shut
	fails atomic.Bool  // it refuses what it is given; it says so
	took  atomic.Int64 // ns, what half of its executions stay below of late; 0 before the first

	number   int // its index among all
	cfg      backend.InstanceConfig
	needy    bool        // it needs something of the rate limiter; set when it begins to take requests
	asked    atomic.Bool // what it runs the rate limiter has been asked for
	reporter *reporter   // of the instance that is there
	reported bool        // only Watch looks

	// ctx is that of its executions. When it ends, replaces ends too.
	ctx      context.Context
	stop     context.CancelFunc
	replaces sync.WaitGroup

	// stay is held by each request of a decoupled model that has run on the instance
	// until it ends, and by the slot itself until it is to leave.
	stay   *tensor.Buffer
	empty  chan struct{} // closed with the last hold
	done   atomic.Bool   // the scheduler has nothing for it any more; only of one that leaves
	vacant chan struct{} // one is enough: it may hold nothing any more
}

// shut is in downs of instances that take no requests, or none any more.
const shut = 1 << 16

const (
	// quickSpan is how long what is sent ahead to an instance may take: a few round
	// trips, which is what sending ahead saves. So instances with executions of half
	// of it have two batches ahead, and slow ones none.
	quickSpan = 500e3 // ns
	// shortest is the least that took says: below it, nothing more is sent ahead. So
	// 62 are the most: more clients than that are no quicker for it, and a request that
	// stands in line here costs the server two switches and a select.
	shortest = 8e3 // ns
	// heldUp is what an instance counts that has held up what was sent ahead, or that may
	// have when that was recalled: after some ten quick executions it is quick again.
	heldUp = 4 * quickSpan
	// tookPart is by what part of it each execution moves took.
	tookPart = 8
	// openLimit bounds the batches that an instance's model may have left to answer
	// later and that do not count.
	openLimit = 32
)

// executed notes how long an execution took. took follows what half of them stay
// below: an average says on a busy machine how long others were run, and answers
// that come together leave little ahead for the first of the next ones.
func (s *slot) executed(ns int64) {
	before := s.took.Load()
	took := before
	switch {
	case took == 0:
		took = min(ns, heldUp)
	case ns > took:
		took += min(ns-took, took/tookPart)
	default:
		took -= min(took-ns, took/tookPart)
	}
	// Not after what held up others meanwhile: it counts until ten later ones were quick.
	s.took.CompareAndSwap(before, max(took, shortest))
}

// capacity hands out room on instances, for one batch each. While nobody waits that is one
// compare-and-swap. Waiters stand in line, and newcomers do not pass them.
type capacity struct {
	table   atomic.Pointer[[]*slot] // by number, nil where there is none; never changed, but replaced under mu
	first   int                     // how many take requests at first: the passive ones come last
	depth   atomic.Int32
	alone   atomic.Bool      // nothing is sent ahead
	waiting atomic.Int32     // len(line), or more while someone joins
	limits  *ratelimit.Group // nil without a rate limiter

	mu   sync.Mutex
	line []*waiter
	// wants says that limits have been asked for those in line; giving is a slot that
	// is just being given back.
	wants    bool
	giving   *slot
	entering int // ordered ones that have room and not yet their place on the instance
	onUp     []func()
	rise     chan struct{} // closed when an instance is up again; nil while nobody waits for that
}

type waiter struct {
	since   int64
	ordered bool     // it is let in alone, see AcquireInOrder
	granted chan int // one: the hand-over does not wait
}

func (p *capacity) init(active, depth int) {
	p.first = active
	p.depth.Store(int32(min(depth, 1<<30)))
	p.table.Store(&[]*slot{})
}

func (p *capacity) slots() []*slot { return *p.table.Load() }

// at returns the slot of an instance that is there.
func (p *capacity) at(i int) *slot { return p.slots()[i] }

// add gives a slot the lowest number that is free.
func (p *capacity) add(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.slots())
	if s.number = slices.Index(all, nil); s.number < 0 {
		s.number = len(all)
		all = append(all, nil)
	}
	all[s.number] = s
	p.table.Store(&all)
}

// remove frees the number of a slot.
func (p *capacity) remove(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.slots())
	all[s.number] = nil
	p.table.Store(&all)
}

// Instances returns how many instances take requests when the pool has been
// opened, numbered from 0. Others come and go by Join and Leave.
func (p *capacity) Instances() int { return p.first }

// Depth returns how many batches one instance runs at once.
func (p *capacity) Depth() int { return int(p.depth.Load()) }

// Up reports whether an instance can begin something.
func (p *capacity) Up(i int) bool { return p.at(i).downs.Load() == 0 }

// Ahead reports whether a busy instance may be sent one more batch.
func (p *capacity) Ahead(i int) bool { return p.aheadOf(p.at(i)) > 0 }

// aheadOf returns how many batches an instance may hold that it has not begun.
func (p *capacity) aheadOf(s *slot) int32 {
	most := s.ahead.Load()
	if most == 0 || p.alone.Load() {
		return 0
	}
	took := s.took.Load()
	if took == 0 || took >= quickSpan {
		return 0
	}
	return int32(min(int64(most), quickSpan/took))
}

// room returns how many batches an instance may hold.
func (p *capacity) room(s *slot) int32 {
	if s.downs.Load() != 0 {
		return 0
	}
	return p.depth.Load() + p.aheadOf(s) + min(s.open.Load(), openLimit)
}

// OneAtATime stops sending batches to instances that are busy.
func (p *capacity) OneAtATime() {
	p.depth.Store(1)
	p.alone.Store(true)
}

// OnUp has f called each time an instance can begin something again.
func (p *capacity) OnUp(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onUp = append(p.onUp, f)
}

// raise takes back one reason why an instance cannot begin anything.
func (p *capacity) raise(s *slot) {
	if s.downs.Add(-1)&(shut-1) != 0 {
		return
	}
	p.Admit()
	p.mu.Lock()
	rise := p.rise
	p.rise = nil
	told := p.onUp
	p.mu.Unlock()
	if rise != nil {
		close(rise)
	}
	for _, f := range told {
		f()
	}
}

// awaitUp waits until an instance can begin something, or one of the two ends.
func (p *capacity) awaitUp(i int, over, gone <-chan struct{}) {
	for {
		p.mu.Lock()
		if p.rise == nil {
			p.rise = make(chan struct{})
		}
		rise := p.rise
		p.mu.Unlock()
		if p.at(i).downs.Load()&(shut-1) == 0 { // one that leaves still runs what is bound to it
			return
		}
		select {
		case <-rise:
		case <-over:
			return
		case <-gone:
			return
		}
	}
}

// TryAcquire takes room on the least loaded instance, unless others wait, or
// the instances are limited.
func (p *capacity) TryAcquire() (int, bool) {
	if p.waiting.Load() > 0 || p.limits.Limited() {
		return 0, false
	}
	return p.take(false)
}

// take takes room; ordered says that it is not to be ahead of what the instance has begun.
func (p *capacity) take(ordered bool) (int, bool) {
	for {
		best, least := p.leastLoaded(false, ordered)
		if best == nil && !p.hope() {
			best, least = p.leastLoaded(true, ordered)
		}
		switch {
		case best == nil:
			return 0, false
		case !best.load.CompareAndSwap(least, least+1):
		case best.downs.Load() < shut:
			return best.number, true
		default:
			best.drop() // it was told to leave meanwhile
		}
	}
}

// leastLoaded returns an instance with room, of those that fail or of the others,
// and its load; nil for none.
func (p *capacity) leastLoaded(fails, ordered bool) (best *slot, least int32) {
	for _, s := range p.slots() {
		if s == nil {
			continue
		}
		room := p.room(s)
		if ordered {
			room -= p.aheadOf(s) // what is sent ahead may come back, behind others
		}
		if n := s.load.Load(); (best == nil || n < least) && n < room && !s.needy && s.fails.Load() == fails {
			if best, least = s, n; n == 0 {
				break
			}
		}
	}
	return best, least
}

// hope reports whether an instance that takes requests does not fail: it is worth
// waiting for.
func (p *capacity) hope() bool {
	return slices.ContainsFunc(p.slots(), func(s *slot) bool { return s != nil && !s.fails.Load() && s.downs.Load() < shut })
}

// drop gives room back. Whoever shuts a slot looks at its load after, and
// whoever takes room looks at whether the slot is shut after: one of them sees
// the other.
func (s *slot) drop() {
	if s.load.Add(-1) == 0 && s.downs.Load() >= shut {
		s.signal()
	}
}

// signal says that a slot that leaves may be vacant.
func (s *slot) signal() {
	select {
	case s.vacant <- struct{}{}:
	default: // one signal is enough
	}
}

// ErrStopped is the error of an Acquire whose stop was closed.
var ErrStopped = errors.New("nobody is to wait for room any more")

// Acquire waits in line for room until ctx ends or stop is closed, before those who
// have a later since. These are two, since to make one of them costs each request that
// waits more than to wait.
func (p *capacity) Acquire(ctx context.Context, stop <-chan struct{}, since int64) (int, error) {
	return p.acquire(ctx, stop, &waiter{since: since})
}

func (p *capacity) acquire(ctx context.Context, stop <-chan struct{}, w *waiter) (int, error) {
	var others ratelimit.Turns
	p.mu.Lock()
	// Counted before the attempt: a release that comes after it sees the waiter.
	p.waiting.Add(1)
	if len(p.line) == 0 || w.since < p.line[0].since {
		if i, ok := p.admitOneLocked(w, &others); ok {
			p.waiting.Add(-1)
			p.settleLocked(&others)
			p.mu.Unlock()
			others.Tell()
			return i, nil
		}
	}
	p.joinLocked(w)
	p.mu.Unlock()
	others.Tell()
	return p.wait(ctx, stop, w)
}

// AcquireInOrder is Acquire for requests of which the one that gets room first is to be
// the first on its instance: the next one gets room once the one before has its place
// there, which Entered says for each that has got room, once. Nothing is sent ahead.
func (p *capacity) AcquireInOrder(ctx context.Context, stop <-chan struct{}, since int64) (int, error) {
	return p.acquire(ctx, stop, &waiter{since: since, ordered: true})
}

// TryAcquireInOrder is AcquireInOrder without a wait.
func (p *capacity) TryAcquireInOrder() (i int, ok bool) {
	var others ratelimit.Turns
	p.mu.Lock()
	if len(p.line) == 0 {
		i, ok = p.admitOneLocked(&waiter{ordered: true}, &others)
		p.settleLocked(&others)
	}
	p.mu.Unlock()
	others.Tell()
	return i, ok
}

// Entered lets the next one in.
func (p *capacity) Entered() {
	var others ratelimit.Turns
	p.mu.Lock()
	p.entering--
	p.admitLocked(&others)
	p.mu.Unlock()
	others.Tell()
}

func (p *capacity) joinLocked(w *waiter) {
	w.granted = make(chan int, 1)
	at := len(p.line)
	for at > 0 && w.since < p.line[at-1].since {
		at--
	}
	p.line = slices.Insert(p.line, at, w)
}

// admitOneLocked takes room for one that waits.
func (p *capacity) admitOneLocked(w *waiter, others *ratelimit.Turns) (int, bool) {
	if w.ordered && p.entering > 0 {
		return 0, false
	}
	i, ok := p.takeLocked(w.ordered, others)
	if ok && w.ordered {
		p.entering++
	}
	return i, ok
}

// wait waits for room until ctx ends or stop is closed.
func (p *capacity) wait(ctx context.Context, stop <-chan struct{}, w *waiter) (int, error) {
	why := ErrStopped
	select {
	case i := <-w.granted:
		return i, nil
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-stop:
	}
	var others ratelimit.Turns
	p.mu.Lock()
	at := slices.Index(p.line, w)
	if at >= 0 {
		p.line = slices.Delete(p.line, at, at+1)
		p.waiting.Add(-1)
		p.settleLocked(&others)
	}
	p.mu.Unlock()
	others.Tell()
	if at < 0 {
		p.Release(<-w.granted) // it came at the same moment
		if w.ordered {
			p.Entered()
		}
	}
	return 0, why
}

// Release gives room back, to the first in line if there is one.
func (p *capacity) Release(i int) {
	s := p.at(i)
	if s.asked.Load() {
		p.releaseLimited(s)
		return
	}
	s.drop()
	p.Admit()
}

// Admit gives the room that is free to those in line.
func (p *capacity) Admit() {
	if p.waiting.Load() == 0 {
		return
	}
	var others ratelimit.Turns
	p.mu.Lock()
	p.admitLocked(&others)
	p.mu.Unlock()
	others.Tell()
}

func (p *capacity) admitLocked(others *ratelimit.Turns) {
	for len(p.line) > 0 {
		w := p.line[0]
		i, ok := p.admitOneLocked(w, others)
		if !ok {
			return
		}
		p.line = slices.Delete(p.line, 0, 1)
		p.waiting.Add(-1)
		w.granted <- i
	}
	p.settleLocked(others)
}
