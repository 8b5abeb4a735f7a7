package instance

import (
	"context"
	"fmt"
	"time"

	"github.com/nesoserve/neso/backend"
)

const (
	// grace is how long an interrupted instance may take to come back: longer than
	// a worker process gets before it is ended.
	grace = 3 * time.Second
	// quietReport is after how long without progress a busy instance is reported
	// where nothing says when it hangs.
	quietReport = time.Minute
	// leastRetry and mostRetry bound the pause before another try to make an
	// instance in place of one that was abandoned.
	leastRetry = 100 * time.Millisecond
	mostRetry  = 10 * time.Second
)

// Watch looks at the instances: one that is busy and has made no progress for
// half of HangTimeout (a minute without one) is reported, after all of it the
// instance is interrupted. A backend that heeds that, as workers do by ending the
// process, keeps its instance; else the executions are abandoned, their requests
// answered, and another instance takes its place. now is of backend.Now. Watch
// does not wait, and is called by one goroutine at a time.
func (p *Pool) Watch(now int64) {
	report := quietReport
	if p.o.HangTimeout > 0 {
		report = p.o.HangTimeout / 2
	}
	stuck := int32(0)
	for _, s := range p.slots() {
		l := s.alive()
		if l == nil {
			continue
		}
		quiet := l.quiet(now)
		switch {
		case l.interrupted():
			stuck++ // its replacement is under way
			continue
		case quiet < report || p.o.HangTimeout <= 0 && p.o.Decoupled:
			// Without a timeout nobody sees the responses of a decoupled model.
			if s.reported {
				s.reported = false
				p.warn("an instance makes progress again", s)
			}
			continue
		}
		stuck++
		if !s.reported {
			s.reported = true
			p.warn(fmt.Sprintf("an instance has made no progress for %v", quiet.Round(time.Millisecond)), s)
		}
		if p.o.HangTimeout > 0 && quiet >= p.o.HangTimeout {
			p.interrupt(s, l, now)
		}
	}
	p.stuck.Store(stuck)
}

// alive returns the life of a slot, which may be nil, or nil.
func (s *slot) alive() *life {
	if s == nil {
		return nil
	}
	return s.life.Load()
}

func (p *Pool) warn(text string, s *slot) {
	if p.o.Logger != nil {
		p.o.Logger.Warn(text, "instance", s.cfg.Name) //nolint:sloglint // texts of this file
	}
}

// quiet returns for how long nothing has happened on a busy instance.
func (l *life) quiet(now int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running.Load() == 0 || l.delivering > 0 {
		return 0
	}
	return time.Duration(max(0, now-l.since.Load()))
}

// interrupt ends a life, unless it has made progress meanwhile.
func (p *Pool) interrupt(s *slot, l *life, now int64) {
	l.mu.Lock()
	if len(l.attempts) == 0 || l.delivering > 0 || time.Duration(now-l.since.Load()) < p.o.HangTimeout || s.ctx.Err() != nil {
		l.mu.Unlock()
		return
	}
	l.ended = true
	idle := make(chan struct{})
	l.idle = idle
	s.downs.Add(1)
	p.hung.Add(1)
	p.hangs.Add(1)
	// Close does not come before these calls have left, for which they need the lock.
	s.replaces.Go(func() {
		defer p.hung.Add(-1)
		p.replace(s, l, idle)
	})
	l.mu.Unlock()
	p.warn("an instance hangs and is interrupted", s)
	l.cancel(p.errHung(l))
}

// replace puts another life into the slot: of the same instance when it has come
// back, else of a new one.
func (p *Pool) replace(s *slot, l *life, idle <-chan struct{}) {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
	in := l.instance
	if p.abandon(l) {
		p.warn("an instance ignores its interruption and is replaced", s)
		if in = p.makeAnother(s); in == nil {
			return // it is being closed
		}
		p.warn("an instance was replaced", s)
	}
	s.life.Store(newLife(s, in, l.number+1))
	p.raise(s)
}

// abandon gives up the executions that have not come back, if there are any.
func (p *Pool) abandon(l *life) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.attempts) == 0 {
		return false
	}
	l.gone = true
	for c := range l.attempts {
		c.abandoned = true
		close(c.given)
	}
	return true
}

func (p *Pool) makeAnother(s *slot) backend.Instance {
	for pause := leastRetry; ; pause = min(2*pause, mostRetry) {
		in, err := p.newInstance(s.ctx, s)
		if err == nil && s.ctx.Err() == nil {
			return in
		}
		if err == nil {
			_ = p.closeInstance(s, in)
			return nil
		}
		p.warn("an instance cannot be made anew: "+err.Error(), s)
		if !sleep(s.ctx, pause) {
			return nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Health is how the instances are at present.
type Health struct {
	// Instances there are; of them Stuck make no progress, of which Replacing have
	// been interrupted.
	Instances, Stuck, Replacing int
	Hangs                       int64 // interruptions so far
}

// HostMemory returns how many bytes of the machine's memory the instances have, as
// far as they know.
func (p *Pool) HostMemory() uint64 {
	sum := uint64(0)
	for _, s := range p.slots() {
		l := s.alive()
		if l == nil || l.abandoned() {
			continue
		}
		if u, ok := l.instance.(backend.MemoryUser); ok {
			_ = Guard(p.o.Logger, "memory of instance "+s.cfg.Name, func() error {
				sum += u.HostMemory()
				return nil
			})
		}
	}
	return sum
}

// Health returns what Watch has found.
func (p *Pool) Health() Health {
	there := 0
	for _, s := range p.slots() {
		if s.alive() != nil {
			there++
		}
	}
	return Health{there, int(p.stuck.Load()), int(p.hung.Load()), p.hangs.Load()}
}
