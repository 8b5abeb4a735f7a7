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
	for i := range p.slots {
		s := &p.slots[i]
		l := s.life.Load()
		quiet := l.quiet(now)
		switch {
		case l.interrupted():
			stuck++ // its replacement is under way
			continue
		case quiet < report || p.o.HangTimeout <= 0 && p.o.Decoupled:
			// Without a timeout nobody sees the responses of a decoupled model.
			if s.reported {
				s.reported = false
				p.warn("an instance makes progress again", i)
			}
			continue
		}
		stuck++
		if !s.reported {
			s.reported = true
			p.warn(fmt.Sprintf("an instance has made no progress for %v", quiet.Round(time.Millisecond)), i)
		}
		if p.o.HangTimeout > 0 && quiet >= p.o.HangTimeout {
			p.interrupt(i, l, now)
		}
	}
	p.stuck.Store(stuck)
}

func (p *Pool) warn(text string, i int) {
	if p.o.Logger != nil {
		p.o.Logger.Warn(text, "instance", p.o.Instances[i].Name) //nolint:sloglint // texts of this file
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
func (p *Pool) interrupt(i int, l *life, now int64) {
	l.mu.Lock()
	if len(l.calls) == 0 || l.delivering > 0 || time.Duration(now-l.since.Load()) < p.o.HangTimeout || p.ctx.Err() != nil {
		l.mu.Unlock()
		return
	}
	l.ended = true
	idle := make(chan struct{})
	l.idle = idle
	p.slots[i].downs.Add(1)
	p.hung.Add(1)
	p.hangs.Add(1)
	// Close does not come before these calls have left, for which they need the lock.
	p.replaces.Go(func() {
		defer p.hung.Add(-1)
		p.replace(i, l, idle)
	})
	l.mu.Unlock()
	p.warn("an instance hangs and is interrupted", i)
	l.cancel(p.errHung(l))
}

// replace puts another life into the slot: of the same instance when it has come
// back, else of a new one.
func (p *Pool) replace(i int, l *life, idle <-chan struct{}) {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
	in := l.instance
	if p.abandon(l) {
		p.warn("an instance ignores its interruption and is replaced", i)
		if in = p.makeAnother(i); in == nil {
			return // the version is being closed
		}
		p.warn("an instance was replaced", i)
	}
	p.slots[i].life.Store(p.newLife(in, l.number+1))
	p.raise(i)
}

// abandon gives up the executions that have not come back, if there are any.
func (p *Pool) abandon(l *life) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		return false
	}
	l.gone = true
	for c := range l.calls {
		c.abandoned = true
		close(c.given)
	}
	return true
}

func (p *Pool) makeAnother(i int) backend.Instance {
	for pause := leastRetry; ; pause = min(2*pause, mostRetry) {
		in, err := p.newInstance(p.ctx, i)
		if err == nil && p.ctx.Err() == nil {
			return in
		}
		if err == nil {
			_ = p.closeInstance(i, in)
			return nil
		}
		p.warn("an instance cannot be made anew: "+err.Error(), i)
		if !sleep(p.ctx, pause) {
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
	for i := range p.slots {
		l := p.slots[i].life.Load()
		if l == nil || l.abandoned() {
			continue
		}
		if u, ok := l.instance.(backend.MemoryUser); ok {
			_ = Guard(p.o.Logger, "memory of instance "+p.o.Instances[i].Name, func() error {
				sum += u.HostMemory()
				return nil
			})
		}
	}
	return sum
}

// Health returns what Watch has found.
func (p *Pool) Health() Health {
	return Health{len(p.slots), int(p.stuck.Load()), int(p.hung.Load()), p.hangs.Load()}
}
