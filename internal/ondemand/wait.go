package ondemand

import (
	"context"
	"errors"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/residency"
)

// waiter is somebody who waits for a model.
type waiter struct{ answer chan answer } // of capacity 1

// answer is what a waiter is told.
type answer struct{ err, failure error }

// Pin is lifecycle.Manager.PinFor, for a request that may wait until the model is
// loaded: caller is the model that sends it, or empty. It fails when there is no such
// model or version, when it cannot be loaded, or when the time is up.
func (l *Loader) Pin(ctx context.Context, caller, name string, version int64) (*model.Model, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	var timer *time.Timer
	for {
		if m := l.o.Life.PinFor(caller, name, version); m != nil {
			return m, nil
		}
		if l.o.Life.ServesNow(name) || !l.Knows(name) {
			return nil, l.o.Life.Explain(name, version)
		}
		if timer == nil {
			began := time.Now()
			timer = time.NewTimer(l.o.LoadTimeout)
			defer func() {
				timer.Stop()
				l.count(time.Since(began))
			}()
		}
		if err := l.wait(ctx, timer.C, caller, name); errors.Is(err, residency.ErrTakenOut) {
			return nil, l.o.Life.Explain(name, version)
		} else if err != nil {
			return nil, err
		}
	}
}

// wait returns when the model has come in, which may be over already, or why it has not.
func (l *Loader) wait(ctx context.Context, timeout <-chan time.Time, caller, name string) error {
	w := &waiter{make(chan answer, 1)}
	l.mu.Lock()
	l.last++
	id := l.last
	if err := l.machine.Want(backend.Now(), id, name, caller); err != nil {
		l.mu.Unlock()
		return err
	}
	l.waiters[id] = w
	l.mu.Unlock()
	l.signal()
	select {
	case a := <-w.answer:
		return a.err
	case <-ctx.Done():
		l.leave(id, name)
		return backend.AsError(ctx.Err())
	case <-timeout:
		return l.timeout(l.leave(id, name))
	case <-l.ctx.Done():
		l.leave(id, name)
		return backend.Errorf(backend.Unavailable, "Server exiting")
	}
}

// leave ends a wait, and returns how the model was.
func (l *Loader) leave(id uint64, name string) residency.Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, id)
	l.machine.Leave(id, name)
	l.signal()
	return l.machine.Standing(name)
}

// timeout is the answer to a request that has waited too long.
func (l *Loader) timeout(s residency.Standing) *backend.Error {
	what := "its turn or memory for it has not come"
	if s.State == residency.Loading {
		what = "it is still being loaded"
	}
	err := backend.Errorf(backend.Unavailable, "model '%s' is not loaded: the request has waited %s (%s), and %s", s.Name, l.o.LoadTimeout,
		l.o.Words.Name("on-demand-timeout-secs"), what)
	err.RetryAfter = time.Second
	return err
}

func (l *Loader) count(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits++
	l.waited += took
}

// Knows reports whether a repository has a model of that name.
func (l *Loader) Knows(name string) bool {
	if l.catalogue.has(name) {
		return true
	}
	found, fresh := l.catalogue.refreshed(name)
	if fresh {
		l.mu.Lock()
		l.machine.Forget(l.catalogue.has)
		for name := range l.known {
			if !l.catalogue.has(name) {
				delete(l.known, name)
			}
		}
		l.mu.Unlock()
	}
	return found
}

// Serves returns nil for a model that a request would be loaded for, else why not. It
// loads nothing.
func (l *Loader) Serves(name string, version int64) error {
	s := l.Standing(name)
	if l.o.Life.ServesNow(name) || !l.Knows(name) || s.State == residency.Out && s.Why == residency.TakenOut {
		return l.o.Life.Explain(name, version)
	}
	return nil
}

// Describe returns the configuration of a version that is not in, -1 for the latest,
// and the numbers of all that would serve. A model that has been in is not loaded for
// that: it is as it was then. For another one that is the only way to know all of it.
func (l *Loader) Describe(ctx context.Context, name string, version int64) (*modelconfig.Config, []int64, error) {
	l.mu.Lock()
	s, versions := l.machine.Standing(name), l.known[name]
	l.mu.Unlock()
	if s.State == residency.Out && s.Why != residency.TakenOut && len(versions) > 0 && l.Knows(name) {
		var found *modelconfig.Config
		numbers := make([]int64, len(versions))
		for i, v := range versions {
			if numbers[i] = v.version; version == -1 || version == v.version {
				found = v.config
			}
		}
		if found != nil {
			return found, numbers, nil
		}
	}
	m, err := l.Pin(ctx, "", name, version)
	if err != nil {
		return nil, nil, err
	}
	defer m.Unpin()
	numbers := []int64{m.Version()}
	if all := l.o.Life.Lookup(name); len(all) > 0 {
		numbers = numbers[:0]
		for _, v := range all {
			numbers = append(numbers, v.Version())
		}
	}
	return m.Config(), numbers, nil
}

// Load is lifecycle.Manager.Load: it makes room, and ends what keeps requests from
// loading the model. One that brings a configuration or files, or reloads what is in,
// takes its memory first, and others leave then.
func (l *Loader) Load(ctx context.Context, r lifecycle.Request) error {
	if err := repository.CheckName(r.Name); err != nil || r.Nested || r.Config != "" || len(r.Files) > 0 || l.o.Life.ServesNow(r.Name) {
		err := l.o.Life.Load(ctx, r)
		if err == nil {
			l.mu.Lock()
			l.machine.Release(r.Name)
			l.mu.Unlock()
		}
		l.signal()
		return err
	}
	w := &waiter{make(chan answer, 1)}
	l.mu.Lock()
	l.last++
	id := l.last
	l.machine.Ask(backend.Now(), id, r.Name)
	l.waiters[id] = w
	l.mu.Unlock()
	l.signal()
	select {
	case a := <-w.answer:
		if a.failure != nil {
			return a.failure
		}
		return a.err
	case <-ctx.Done():
		l.leave(id, r.Name)
		return backend.AsError(ctx.Err())
	case <-l.ctx.Done():
		l.leave(id, r.Name)
		return backend.Errorf(backend.Unavailable, "Server exiting")
	}
}

// Unload takes a model out by unload, so that requests do not bring it back before Load
// does.
func (l *Loader) Unload(name string, unload func() error) error {
	out := func(apply func(name string)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		apply(name)
		l.signal()
	}
	out(l.machine.TakeOut)
	if err := unload(); err != nil {
		out(l.machine.Release)
		return err
	}
	out(l.machine.TakeOut) // a load that was in the way has ended
	return nil
}

// Standing says how a model is.
func (l *Loader) Standing(name string) residency.Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.machine.Standing(name)
}

// Numbers are for the metrics.
type Numbers struct {
	residency.Totals
	Limit int64
	// Waits of requests that have ended, and how long they were together.
	Waits  uint64
	Waited time.Duration
}

// Numbers returns what has been counted.
func (l *Loader) Numbers() Numbers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Numbers{Totals: l.machine.Totals(), Limit: l.o.MemoryLimit, Waits: l.waits, Waited: l.waited}
}
