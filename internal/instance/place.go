package instance

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// slot is one instance and how many batches it holds.
type slot struct {
	life  atomic.Pointer[life] // nil until the instance is made
	load  atomic.Int32
	ahead atomic.Int32 // batches that it may hold before it has begun them; it says so
	open  atomic.Int32 // of load, those that its model has left to answer later
	downs atomic.Int32 // reasons why it cannot begin anything
	took  atomic.Int64 // ns, what half of its executions stay below of late; 0 before the first

	reporter *reporter // of the instance that is there
	reported bool      // only Watch looks
	_        [15]byte  // instances that run at once do not share a cache line
}

const (
	// quickSpan is how long what is sent ahead to an instance may take: a few round
	// trips, which is what sending ahead saves. So instances with executions of half
	// of it have one batch ahead, and slow ones none.
	quickSpan = 500e3 // ns
	// shortest is the least that took says: below it, nothing more is sent ahead.
	shortest = quickSpan / 16
	// heldUp is what an instance counts that has held up what was sent ahead: after
	// some ten quick executions it is quick again.
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
	took := s.took.Load()
	switch {
	case took == 0:
		took = min(ns, heldUp)
	case ns > took:
		took += min(ns-took, took/tookPart)
	default:
		took -= min(took-ns, took/tookPart)
	}
	s.took.Store(max(took, shortest))
}

// places hands out places on instances. While nobody waits that is one
// compare-and-swap. Waiters stand in line, and newcomers do not pass them.
type places struct {
	slots   []slot // of all instances
	active  int    // how many of slots take requests: the passive ones come last
	depth   atomic.Int32
	alone   atomic.Bool  // nothing is sent ahead
	waiting atomic.Int32 // len(line), or more while someone joins

	mu   sync.Mutex
	line []*waiter
	onUp []func()
	rise chan struct{} // closed when an instance is up again; nil while nobody waits for that
}

type waiter struct {
	since int64
	place chan int // one place: the hand-over does not wait
}

func (p *places) init(instances, active, depth int) {
	p.slots, p.active = make([]slot, instances), active
	p.depth.Store(int32(min(depth, 1<<30)))
}

// Instances returns how many instances take requests.
func (p *places) Instances() int { return p.active }

// Depth returns how many batches one instance runs at once.
func (p *places) Depth() int { return int(p.depth.Load()) }

// Up reports whether an instance can begin something.
func (p *places) Up(i int) bool { return p.slots[i].downs.Load() == 0 }

// Ahead reports whether a busy instance may be sent one more batch.
func (p *places) Ahead(i int) bool { return p.aheadOf(&p.slots[i]) > 0 }

// aheadOf returns how many batches an instance may hold that it has not begun.
func (p *places) aheadOf(s *slot) int32 {
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
func (p *places) room(s *slot) int32 {
	if s.downs.Load() != 0 {
		return 0
	}
	return p.depth.Load() + p.aheadOf(s) + min(s.open.Load(), openLimit)
}

// OneAtATime stops sending batches to instances that are busy.
func (p *places) OneAtATime() {
	p.depth.Store(1)
	p.alone.Store(true)
}

// OnUp has f called each time an instance can begin something again.
func (p *places) OnUp(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onUp = append(p.onUp, f)
}

// raise takes back one reason why an instance cannot begin anything.
func (p *places) raise(i int) {
	if p.slots[i].downs.Add(-1) != 0 {
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
func (p *places) awaitUp(i int, over, gone <-chan struct{}) {
	for {
		p.mu.Lock()
		if p.rise == nil {
			p.rise = make(chan struct{})
		}
		rise := p.rise
		p.mu.Unlock()
		if p.Up(i) {
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

// TryAcquire takes a place on the least loaded instance, unless others wait.
func (p *places) TryAcquire() (int, bool) {
	if p.waiting.Load() > 0 {
		return 0, false
	}
	return p.take()
}

func (p *places) take() (int, bool) {
	for {
		best, least := -1, int32(0)
		for i := range p.active {
			s := &p.slots[i]
			if n := s.load.Load(); (best < 0 || n < least) && n < p.room(s) {
				if best, least = i, n; n == 0 {
					break
				}
			}
		}
		if best < 0 {
			return 0, false
		}
		if p.slots[best].load.CompareAndSwap(least, least+1) {
			return best, true
		}
	}
}

// Acquire waits in line for a place until ctx ends, before those who have a
// later since.
func (p *places) Acquire(ctx context.Context, since int64) (int, error) {
	p.mu.Lock()
	// Counted before the attempt: a release that comes after it sees the waiter.
	p.waiting.Add(1)
	if len(p.line) == 0 || since < p.line[0].since {
		if i, ok := p.take(); ok {
			p.waiting.Add(-1)
			p.mu.Unlock()
			return i, nil
		}
	}
	w := &waiter{since: since, place: make(chan int, 1)}
	at := len(p.line)
	for at > 0 && since < p.line[at-1].since {
		at--
	}
	p.line = slices.Insert(p.line, at, w)
	p.mu.Unlock()

	select {
	case i := <-w.place:
		return i, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	at = slices.Index(p.line, w)
	if at >= 0 {
		p.line = slices.Delete(p.line, at, at+1)
		p.waiting.Add(-1)
	}
	p.mu.Unlock()
	if at < 0 {
		p.Release(<-w.place) // it came at the same moment
	}
	return 0, context.Cause(ctx)
}

// Release gives a place back, to the first in line if there is one.
func (p *places) Release(i int) {
	p.slots[i].load.Add(-1)
	p.Admit()
}

// Admit gives the places that are free to those in line.
func (p *places) Admit() {
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.line) > 0 {
		i, ok := p.take()
		if !ok {
			return
		}
		w := p.line[0]
		p.line = slices.Delete(p.line, 0, 1)
		p.waiting.Add(-1)
		w.place <- i
	}
}
