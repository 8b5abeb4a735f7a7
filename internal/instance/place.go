package instance

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// slot is one instance and how many batches it holds.
type slot struct {
	life     atomic.Pointer[life] // nil until the instance is made
	load     atomic.Int32
	reported bool     // only Watch looks
	_        [40]byte // instances that run at once do not share a cache line
}

// places hands out places on instances. While nobody waits that is one
// compare-and-swap. Waiters stand in line, and newcomers do not pass them.
type places struct {
	slots   []slot
	depth   atomic.Int32
	waiting atomic.Int32 // len(line), or more while someone joins

	mu   sync.Mutex
	line []*waiter
}

type waiter struct {
	place chan int // one place: the hand-over does not wait
}

func (p *places) init(slots []slot, depth int) {
	p.slots = slots
	p.depth.Store(int32(min(depth, 1<<30)))
}

// Instances returns how many instances there are.
func (p *places) Instances() int { return len(p.slots) }

// Depth returns how many batches one instance may hold.
func (p *places) Depth() int { return int(p.depth.Load()) }

// OneAtATime stops sending batches ahead to instances that are busy: such a
// batch can no longer go to another instance.
func (p *places) OneAtATime() { p.depth.Store(1) }

// TryAcquire takes a place on the least loaded instance, unless others wait.
func (p *places) TryAcquire() (int, bool) {
	if p.waiting.Load() > 0 {
		return 0, false
	}
	return p.take()
}

func (p *places) take() (int, bool) {
	for {
		best, least := 0, p.slots[0].load.Load()
		for i := 1; i < len(p.slots) && least > 0; i++ {
			if n := p.slots[i].load.Load(); n < least {
				best, least = i, n
			}
		}
		if least >= p.depth.Load() {
			return 0, false
		}
		if p.slots[best].load.CompareAndSwap(least, least+1) {
			return best, true
		}
	}
}

// Acquire waits in line for a place until ctx ends.
func (p *places) Acquire(ctx context.Context) (int, error) {
	p.mu.Lock()
	// Counted before the attempt: a release that comes after it sees the waiter.
	p.waiting.Add(1)
	if len(p.line) == 0 {
		if i, ok := p.take(); ok {
			p.waiting.Add(-1)
			p.mu.Unlock()
			return i, nil
		}
	}
	w := &waiter{place: make(chan int, 1)}
	p.line = append(p.line, w)
	p.mu.Unlock()

	select {
	case i := <-w.place:
		return i, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	at := slices.Index(p.line, w)
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
