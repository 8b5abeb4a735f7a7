package dynamic

import "sync/atomic"

// place is the way to an instance's worker: of batches that are sent ahead, on goroutines
// of their own, one at a time is on it, so that they come to the worker in the order in
// which they were formed.
type place struct {
	taken  atomic.Bool // by a batch that is not in the worker's channel yet
	wanted atomic.Bool // another one was to be sent meanwhile
	placed func()
}

// free reports whether a batch may be sent behind those that the instance has. If not, a
// step follows once it may.
func (p *place) free() bool {
	if !p.taken.Load() {
		return true
	}
	p.wanted.Store(true)
	return !p.taken.Load()
}

// placeOf returns the way to an instance. It is called with the lock held.
func (s *Scheduler) placeOf(i int) *place {
	for len(s.places) <= i {
		p := &place{}
		p.placed = func() {
			p.taken.Store(false)
			if p.wanted.Swap(false) {
				s.drive.Soon()
			}
		}
		s.places = append(s.places, p)
	}
	return s.places[i]
}

// placing says that a batch is on its way to an instance, and returns what is to be called
// when it is there. It is called with the lock held.
func (s *Scheduler) placing(i int) func() {
	p := s.placeOf(i)
	p.taken.Store(true)
	return p.placed
}
