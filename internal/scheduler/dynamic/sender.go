package dynamic

import "sync/atomic"

// sender lets one batch at a time go to an instance that has others already. Batches that
// are sent ahead have goroutines of their own; so they reach the worker in the order in
// which they were formed.
type sender struct {
	busy   atomic.Bool // with a batch that is not in the worker's channel yet
	wanted atomic.Bool // another one was to be sent meanwhile
	placed func()      // says that the batch is there
}

// free reports whether a batch may be sent behind those that the instance has. If not, a
// step follows once it may.
func (s *sender) free() bool {
	if !s.busy.Load() {
		return true
	}
	s.wanted.Store(true)
	return !s.busy.Load()
}

// senderOf returns the sender of an instance. It is called with the lock held.
func (s *Scheduler) senderOf(i int) *sender {
	for len(s.senders) <= i {
		p := &sender{}
		p.placed = func() {
			p.busy.Store(false)
			if p.wanted.Swap(false) {
				s.drive.Soon()
			}
		}
		s.senders = append(s.senders, p)
	}
	return s.senders[i]
}

// placing says that a batch is on its way to an instance, and returns what is to be called
// when it is there. It is called with the lock held.
func (s *Scheduler) placing(i int) func() {
	p := s.senderOf(i)
	p.busy.Store(true)
	return p.placed
}
