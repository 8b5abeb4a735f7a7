package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/repository"
)

// Poller brings what is loaded in line with what the repositories hold, again
// and again. It owns one goroutine. A nil Poller does nothing.
type Poller struct {
	m        *Manager
	watch    repository.Watch
	interval time.Duration
	failed   map[string]bool   // repositories that cannot be read, as logged
	temp     map[string]string // the same of models that will be tried again

	ctx  context.Context // ends when polling must stop
	stop context.CancelFunc
	mu   sync.Mutex // Start and Close may meet
	done sync.WaitGroup

	looking sync.Mutex // held by who looks, and takes what has changed
}

// NewPoller returns one that looks each interval, for 0 only when Now is called, and
// takes a change once it has stayed the same for the settle time, which is at most
// the interval.
func NewPoller(m *Manager, interval, settle time.Duration) *Poller {
	ctx, stop := context.WithCancel(context.Background())
	return &Poller{
		m: m, ctx: ctx, stop: stop, interval: interval, watch: repository.Watch{Settle: min(settle, interval)},
		failed: map[string]bool{}, temp: map[string]string{},
	}
}

// Prime looks before the startup models load: what changes meanwhile is seen
// as a change then.
func (p *Poller) Prime(ctx context.Context) {
	if p == nil {
		return
	}
	look := p.m.o.Repository.Look(ctx)
	p.report(look)
	p.watch.Prime(look)
}

// Start begins to poll, unless Close has been called.
func (p *Poller) Start() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil && p.interval > 0 {
		p.done.Go(func() { p.run(p.ctx) })
	}
}

// Close ends the polling and waits for what it is doing.
func (p *Poller) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.done.Wait()
}

func (p *Poller) run(ctx context.Context) {
	timer := time.NewTimer(p.interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wait := p.interval
		if p.m.o.Repository.Remote() {
			// Servers that were started together do not ask a store together for ever.
			wait -= rand.N(wait/8 + 1)
		}
		if again := p.once(ctx); again > 0 {
			wait = min(wait, again)
		}
		timer.Reset(wait)
	}
}

// Now looks once and takes what has changed, and has stayed the same for the settle
// time.
func (p *Poller) Now(ctx context.Context) error {
	p.once(ctx)
	return ctx.Err()
}

// once looks once and takes what has changed. It returns how long until
// something that waits may be complete; 0 for nothing.
func (p *Poller) once(ctx context.Context) time.Duration {
	p.looking.Lock()
	defer p.looking.Unlock()
	look := p.m.o.Repository.Look(ctx)
	if ctx.Err() != nil {
		return 0
	}
	p.report(look)
	changes, again := p.watch.Take(time.Now(), look)
	if len(changes) == 0 {
		return again
	}
	var load, gone []string
	for _, c := range changes {
		switch {
		case c.Duplicate:
			p.m.log.Error(fmt.Sprintf("failed to poll model '%s': not unique across all model repositories", c.Name), "model", c.Name)
			gone = append(gone, c.Name)
		case c.Gone:
			gone = append(gone, c.Name)
		default:
			load = append(load, c.Name)
		}
		if p.temp[c.Name] == "" {
			p.m.log.Info("model repository has changed", "model", c.Name, "gone", c.Gone)
		}
	}
	failures := p.m.Reconcile(ctx, load, gone, p.watch.Present())
	still := map[string]string{}
	for _, f := range failures {
		if f.Temporary {
			p.watch.Retry(f.Model)
			still[f.Model] = f.Err.Error()
		}
	}
	p.temp = still
	return again
}

// report logs which repositories cannot be read: once, since the texts of a
// network differ from time to time.
func (p *Poller) report(look repository.Look) {
	bad := maps.Clone(look.Failed)
	maps.Copy(bad, look.Away)
	for path, err := range bad {
		if !p.failed[path] {
			p.m.log.Error("model repository cannot be read, what is loaded of it goes on", "repository", path, "error", err.Error())
			p.failed[path] = true
		}
	}
	for path := range p.failed {
		if bad[path] == nil {
			p.m.log.Info("model repository can be read again", "repository", path)
			delete(p.failed, path)
		}
	}
}
