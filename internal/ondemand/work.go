package ondemand

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle"
	"github.com/nesoserve/neso/internal/residency"
)

// perform does what was decided, under the lock: what takes its time on a goroutine.
func (l *Loader) perform(a residency.Action) {
	switch a.Kind {
	case residency.Answer:
		for _, id := range a.Waiters {
			if w := l.waiters[id]; w != nil {
				delete(l.waiters, id)
				w.answer <- answer{a.Err, a.Failure}
			}
		}
	case residency.Read:
		l.work.Go(func() { l.read(a.Name) })
	case residency.Load:
		l.work.Go(func() { l.load(a.Name, a.Inside) })
	case residency.Evict:
		l.work.Go(func() { l.evict(a.Name, a.Why) })
	}
}

// ended tells the machine that something has ended.
func (l *Loader) ended(tell func(m *residency.Machine)) {
	l.mu.Lock()
	tell(l.machine)
	l.mu.Unlock()
	l.signal()
}

// mostParts bounds how many models an ensemble is read with.
const mostParts = 1024

// read sketches a model, and the models that it is made of. What cannot be read is an
// error of the load.
func (l *Loader) read(name string) {
	var all []residency.Sketch
	for names := []string{name}; len(all) < len(names) && len(all) < mostParts; {
		next := names[len(all)]
		s := residency.Sketch{Name: next, Traits: l.traitsOf(nil)}
		if sketch, err := l.o.Life.Sketch(l.ctx, next); err == nil {
			s.Parts, s.Bytes, s.Traits = sketch.Parts, sketch.Bytes, l.traitsOf(sketch.Config)
			for _, part := range s.Parts {
				if !slices.Contains(names, part) {
					names = append(names, part)
				}
			}
		}
		all = append(all, s)
	}
	l.ended(func(m *residency.Machine) { m.Read(name, all) })
}

func (l *Loader) load(name string, inside bool) {
	err := l.o.Life.Load(l.ctx, lifecycle.Request{Name: name, Nested: inside, Back: true})
	if err != nil {
		if l.ctx.Err() == nil {
			l.catalogue.refreshed(name) // it may be gone: the next request is told so
		}
		l.ended(func(m *residency.Machine) { m.Failed(backend.Now(), name, err, l.o.Life.ServesNow) })
		return
	}
	l.ended(func(m *residency.Machine) { m.Loaded(backend.Now(), name) })
}

func (l *Loader) evict(name string, why residency.Reason) {
	l.remember(name)
	if err := l.o.Life.Evict(l.ctx, name); err != nil { // a load was in the way
		l.ended(func(m *residency.Machine) { m.Kept(name) })
		return
	}
	l.o.Logger.Info("model is not in memory any more", slog.String("model", name), slog.String("reason", why.String()))
	if err := l.o.Life.Unloaded(l.ctx, name); err != nil && !errors.Is(err, l.ctx.Err()) {
		l.o.Logger.Error("model does not leave memory", "model", name, "error", err)
	}
	l.ended(func(m *residency.Machine) { m.Unloaded(name) })
}

// remember keeps what a model is while it is not in.
func (l *Loader) remember(name string) {
	var versions []*known
	for _, m := range l.o.Life.Lookup(name) {
		versions = append(versions, &known{m.Version(), m.Config()})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[name] = versions
}
