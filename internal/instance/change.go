package instance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/tensor"
)

// Reserve gives instances that are to be made their numbers. They take no
// requests before Join.
func (p *Pool) Reserve(all []backend.InstanceConfig) []int {
	numbers := make([]int, len(all))
	for i, cfg := range all {
		s := newSlot(p.ctx, cfg)
		p.add(s)
		numbers[i] = s.number
	}
	return numbers
}

func newSlot(ctx context.Context, cfg backend.InstanceConfig) *slot {
	s := &slot{cfg: cfg, empty: make(chan struct{}), vacant: make(chan struct{}, 1)} // one is enough: see signal
	s.ctx, s.stop = context.WithCancel(ctx)
	s.stay = tensor.NewBuffer(nil, s)
	s.downs.Store(shut)
	return s
}

// ReleaseBuffer implements tensor.Releaser: the last request of a decoupled model
// has ended.
func (s *slot) ReleaseBuffer(*tensor.Buffer) { close(s.empty) }

// Make makes and warms up the instances of reserved numbers, in parallel unless the
// backend wants them one by one. On error it discards them.
func (p *Pool) Make(ctx context.Context, numbers []int) error {
	// The first failure ends the making of the others, and with the load ends
	// also a warm-up run that does not come back by itself.
	making, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	slots := make([]*slot, len(numbers))
	for k, i := range numbers {
		slots[k] = p.at(i)
	}
	ended := context.AfterFunc(making, func() {
		for _, s := range slots {
			s.stop()
		}
	})
	var wg sync.WaitGroup
	// Making an instance is mostly waiting, for a process or for storage.
	most := max(4, 2*processors.Count())
	if p.o.Capabilities.Serial && !p.o.Parallel {
		most = 1
	}
	sem := make(chan struct{}, most)
	for _, s := range slots {
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			if err := p.create(making, s); err != nil {
				fail(err)
			}
		})
	}
	wg.Wait()
	if !ended() {
		return errors.Join(context.Cause(making), p.Discard(numbers))
	}
	return nil
}

func (p *Pool) create(ctx context.Context, s *slot) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	in, err := p.newInstance(ctx, s)
	if err != nil {
		return err
	}
	s.life.Store(newLife(s, in, 1))
	if p.o.Warm == nil {
		return nil
	}
	return p.o.Warm(ctx, func(requests []*infer.Request, count bool) {
		e := p.execution()
		e.requests = append(e.requests, requests...)
		v := p.o.Stats
		if !count {
			v = nil
		}
		if !p.run(s, e, v) {
			p.refuse(requests, backend.ErrNotBegun) // it has died
		}
	})
}

// Discard closes instances that have taken no requests.
func (p *Pool) Discard(numbers []int) error {
	errs := make([]error, len(numbers))
	var wg sync.WaitGroup
	for k, i := range numbers {
		wg.Go(func() { errs[k] = p.end(p.at(i)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// end closes the instance of a slot and frees its number.
func (p *Pool) end(s *slot) error {
	s.stay.Release()
	err := p.closeSlot(s)
	p.remove(s)
	return err
}

// Join has instances take requests from now on, but for the passive ones.
func (p *Pool) Join(numbers []int) {
	for _, i := range numbers {
		if s := p.at(i); !s.cfg.Passive {
			s.needy = p.limits.Needs(i)
			s.downs.Add(-shut)
		}
	}
	p.Admit()
}

// Leave has instances take nothing new from now on. What they hold they run to
// its end; Depart closes them then.
func (p *Pool) Leave(numbers []int) {
	for _, i := range numbers {
		if s := p.at(i); !s.cfg.Passive {
			s.downs.Add(shut)
		}
	}
	p.Admit() // those that are left may all fail
}

// Left says that the scheduler has nothing for an instance that leaves, and will
// have nothing.
func (p *Pool) Left(i int) {
	if p.limits != nil {
		var others ratelimit.Turns
		p.limits.WithdrawOne(i, &others)
		others.Tell()
	}
	s := p.at(i)
	s.done.Store(true)
	s.signal()
}

// Depart closes an instance that leaves once it holds nothing any more, and then
// calls gone, unless Close is faster. Executions that go on after patience are
// interrupted; 0 means never. The channel is closed when the instance is.
func (p *Pool) Depart(i int, patience time.Duration, gone func()) <-chan struct{} {
	s, closed := p.at(i), make(chan struct{})
	p.departs.Go(func() {
		defer close(closed)
		if !p.clear(s, patience) {
			return // Close closes it
		}
		err := p.closeSlot(s)
		gone()
		p.remove(s)
		if err != nil && p.o.Logger != nil {
			p.o.Logger.Warn("closing an instance that was removed", "instance", s.cfg.Name, "error", err)
		}
	})
	return closed
}

// clear waits until a slot that leaves holds nothing, and reports false when the
// pool closes before.
func (p *Pool) clear(s *slot, patience time.Duration) bool {
	if patience > 0 {
		defer time.AfterFunc(patience, func() {
			p.warn("an instance that was removed still executes requests and is interrupted", s)
			s.stop()
		}).Stop()
	}
	for !s.done.Load() || s.load.Load() > 0 {
		select {
		case <-s.vacant:
		case <-p.ctx.Done():
			return false
		}
	}
	s.stay.Release()
	select {
	case <-s.empty:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// Number returns the index of an instance, by its name, or -1.
func (p *Pool) Number(name string) int {
	for i, s := range p.slots() {
		if s != nil && s.cfg.Name == name {
			return i
		}
	}
	return -1
}

// Count returns how many instances there are, those that leave included, passive
// ones not.
func (p *Pool) Count() int {
	n := 0
	for _, s := range p.slots() {
		if s.alive() != nil && !s.cfg.Passive {
			n++
		}
	}
	return n
}
