package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/repository"
)

// poller brings what is loaded in line with what the repositories hold, again
// and again. It owns one goroutine.
type poller struct {
	e        *Engine
	watch    repository.Watch
	interval time.Duration
	failed   map[string]bool   // repositories that cannot be read, as logged
	temp     map[string]string // the same of models that will be tried again

	ctx  context.Context // ends when polling must stop
	stop context.CancelFunc
	mu   sync.Mutex // start and close may meet
	done sync.WaitGroup
}

// newPoller returns the poller of control mode "poll"; in other modes, and with
// an interval of 0, nil.
func newPoller(e *Engine) *poller {
	if e.o.ControlMode != "poll" || e.o.PollInterval <= 0 {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	return &poller{
		e: e, ctx: ctx, stop: stop, interval: e.o.PollInterval, watch: repository.Watch{Settle: min(e.o.PollSettle, e.o.PollInterval)},
		failed: map[string]bool{}, temp: map[string]string{},
	}
}

// prime looks before the startup models load: what changes meanwhile is seen
// as a change then.
func (p *poller) prime(ctx context.Context) {
	look := p.e.repo.Look(ctx)
	p.report(look)
	p.watch.Prime(look)
}

func (p *poller) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.done.Go(func() { p.run(p.ctx) })
	}
}

// close ends the polling and waits for what it is doing.
func (p *poller) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.done.Wait()
}

func (p *poller) run(ctx context.Context) {
	timer := time.NewTimer(p.interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wait := p.interval
		if again := p.once(ctx); again > 0 {
			wait = min(wait, again)
		}
		timer.Reset(wait)
	}
}

// once looks once and takes what has changed. It returns how long until
// something that waits may be complete; 0 for nothing.
func (p *poller) once(ctx context.Context) time.Duration {
	look := p.e.repo.Look(ctx)
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
			p.e.log.Error(fmt.Sprintf("failed to poll model '%s': not unique across all model repositories", c.Name), "model", c.Name)
			gone = append(gone, c.Name)
		case c.Gone:
			gone = append(gone, c.Name)
		default:
			load = append(load, c.Name)
		}
		if p.temp[c.Name] == "" {
			p.e.log.Info("model repository has changed", "model", c.Name, "gone", c.Gone)
		}
	}
	failures := p.e.life.Reconcile(ctx, load, gone, p.watch.Present())
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
func (p *poller) report(look repository.Look) {
	for path, err := range look.Failed {
		if !p.failed[path] {
			p.e.log.Error("model repository cannot be read, what is loaded of it goes on", "repository", path, "error", err.Error())
			p.failed[path] = true
		}
	}
	for path := range p.failed {
		if look.Failed[path] == nil {
			p.e.log.Info("model repository can be read again", "repository", path)
			delete(p.failed, path)
		}
	}
}
