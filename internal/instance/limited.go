package instance

import "github.com/nesoserve/neso/internal/ratelimit"

// Where an instance needs something of the rate limiter, all of the model ask for
// their turn, one batch at a time, as in Triton, where the one that has run least
// goes first. So it is from the moment on in which such an instance comes, until
// the last one is gone: an execution that began without asking ends without.

// takeLocked takes room for the first in line.
func (p *capacity) takeLocked(ordered bool, others *ratelimit.Turns) (int, bool) {
	if !p.limits.Limited() {
		p.withdrawLocked(others)
		return p.take(ordered)
	}
	for {
		p.wants = true
		i := p.limits.AskAny(p.idle)
		if i < 0 {
			return 0, false
		}
		s := p.at(i)
		if s.load.CompareAndSwap(0, 1) {
			if s.downs.Load() < shut {
				s.asked.Store(true)
				return i, true
			}
			s.drop() // it was told to leave meanwhile
		}
		p.limits.Release(i, others) // somebody who need not ask was faster
	}
}

// idle reports whether an instance could run something, or could in a moment.
func (p *capacity) idle(i int) bool {
	all := p.slots()
	if i >= len(all) || all[i] == nil {
		return false
	}
	s := all[i]
	return s.downs.Load() == 0 && (!s.fails.Load() || !p.hope()) && (s.load.Load() == 0 || s == p.giving && s.load.Load() == 1)
}

// releaseLimited gives back room that the limits were asked for.
func (p *capacity) releaseLimited(s *slot) {
	var others ratelimit.Turns
	p.mu.Lock()
	if s.asked.Swap(false) {
		// Asking comes before giving back, so that others do not get in between.
		p.giving = s
		p.admitLocked(&others)
		p.giving = nil
		p.limits.Release(s.number, &others)
	}
	s.drop()
	p.admitLocked(&others)
	p.mu.Unlock()
	others.Tell()
}

// settleLocked takes back what the limits were asked for when nobody waits.
func (p *capacity) settleLocked(others *ratelimit.Turns) {
	if len(p.line) == 0 {
		p.withdrawLocked(others)
	}
}

func (p *capacity) withdrawLocked(others *ratelimit.Turns) {
	if p.wants {
		p.wants = false
		p.limits.Withdraw(others)
	}
}
