package ondemand

import (
	"context"
	"errors"
	"slices"
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

// Bring waits until a model is loaded that pin did not find: caller is the model that
// sends the request, or empty. It returns whether pin has found it then, or why the model
// cannot be had. Without an error there is nothing to be loaded for the request.
func (l *Loader) Bring(ctx context.Context, caller, name string, pin func() bool) (found bool, err error) {
	if l == nil {
		return false, nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	var timer *time.Timer
	for {
		before := l.o.Life.Lookup(name)
		switch {
		case pin():
			return true, nil
		case len(before) == 0 && !l.Knows(name):
			return false, nil
		case len(before) > 0:
			// It has been in all the time, without such a version, or has just left or come.
			if slices.Equal(before, l.o.Life.Lookup(name)) {
				return false, nil
			}
			continue
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
			return false, nil
		} else if err != nil {
			return false, err
		}
		found := pin()
		l.came(name)
		if found {
			return true, nil
		}
	}
}

// came notes that who was told that a model is in has it, or does without.
func (l *Loader) came(name string) {
	l.mu.Lock()
	l.machine.Came(name)
	l.mu.Unlock()
	l.signal()
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
		l.leave(w, id, name)
		return backend.AsError(ctx.Err())
	case <-timeout:
		return l.timeout(l.leave(w, id, name))
	case <-l.ctx.Done():
		l.leave(w, id, name)
		return backend.Errorf(backend.Unavailable, "Server exiting")
	}
}

// leave ends a wait, and returns how the model was.
func (l *Loader) leave(w *waiter, id uint64, name string) residency.Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters[id] != nil {
		delete(l.waiters, id)
		l.machine.Leave(id, name)
	} else if a := <-w.answer; a.err == nil { // it has just been told
		l.machine.Came(name)
	}
	l.signal()
	return l.machine.Standing(name)
}

// timeout is the answer to a request that has waited too long.
func (l *Loader) timeout(s residency.Standing) *backend.Error {
	l.mu.Lock()
	l.timedOut++
	l.mu.Unlock()
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
// and the numbers of all that would serve, or for a named one its number. A model that has been in is not loaded for
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
		if found != nil && version >= 0 {
			return found, []int64{version}, nil
		} else if found != nil {
			return found, numbers, nil
		}
	}
	var m *model.Model
	there, err := l.Bring(ctx, "", name, func() bool {
		m = l.o.Life.PinFor("", name, version)
		return m != nil
	})
	switch {
	case err != nil:
		return nil, nil, err
	case !there:
		return nil, nil, l.o.Life.Explain(name, version)
	}
	defer m.Unpin()
	numbers := []int64{m.Version()}
	if all := l.o.Life.Lookup(name); len(all) > 0 && version < 0 {
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
		switch {
		case a.failure != nil:
			return a.failure
		case a.err == nil:
			lacks := l.o.Life.Lacks(r.Name)
			l.came(r.Name)
			return lacks // it serves, and is not what the repository has
		}
		return a.err
	case <-ctx.Done():
		l.leave(w, id, r.Name)
		return backend.AsError(ctx.Err())
	case <-l.ctx.Done():
		l.leave(w, id, r.Name)
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
	// TimedOut is how many ended without a model.
	TimedOut uint64
	// Incomplete is how many models are in that came back without what does not load.
	Incomplete int
}

// Numbers returns what has been counted.
func (l *Loader) Numbers() Numbers {
	incomplete := l.o.Life.Incomplete()
	l.mu.Lock()
	defer l.mu.Unlock()
	return Numbers{
		Totals: l.machine.Totals(), Limit: l.o.MemoryLimit, Waits: l.waits, Waited: l.waited, TimedOut: l.timedOut, Incomplete: incomplete,
	}
}
