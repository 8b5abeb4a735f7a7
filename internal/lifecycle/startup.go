package lifecycle

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/lifecycle/uses"
	"github.com/nesoserve/neso/internal/repository"
)

// Failure says why a model did not load.
type Failure = reason.Of

// startup is one LoadAll.
type startup struct {
	m     *Manager
	plans map[string]*plan
	graph uses.Graph

	mu     sync.Mutex
	read   map[string]outcome
	failed map[string]error
	// absent are models of ensembles' steps that no repository has: that is the
	// failure of the ensembles.
	absent map[string]error
	// temporary are the failed models whose storage could not be reached.
	temporary map[string]bool
	// total is how many models there are to load, ended how many loads have ended.
	total, ended int
	// loading are those that are being loaded: how many versions of each.
	loading map[string]int
}

// Progress is how far a LoadAll is.
type Progress struct {
	// Begun of Total models are loaded or being loaded.
	Begun, Total int
	// Loading are those being loaded, sorted.
	Loading []string
}

// Progress returns how far the LoadAll is that runs, or has run.
func (m *Manager) Progress() Progress {
	s := m.starting.Load()
	if s == nil {
		return Progress{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Progress{Begun: min(s.ended+len(s.loading), s.total), Total: s.total, Loading: slices.Sorted(maps.Keys(s.loading))}
}

// opening notes that a version of a model is being loaded until ended is called. The
// receiver may be nil: no startup has begun.
func (s *startup) opening(name string) (ended func()) {
	if s == nil {
		return func() {}
	}
	count := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.loading[name] += n; s.loading[name] == 0 {
			delete(s.loading, name)
		}
	}
	count(1)
	return func() { count(-1) }
}

func (s *startup) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
}

// LoadAll loads the given models and the parts of those that are ensembles,
// parts first, as many at a time as the load threads allow. It returns what
// failed, by model name; the others serve. When ctx ends first it returns nil at
// once; Close waits for what is left of the loads, but not for ever.
func (m *Manager) LoadAll(ctx context.Context, names []string) []Failure {
	done := make(chan []Failure, 1)
	s := &startup{
		m: m, plans: map[string]*plan{}, graph: uses.Graph{}, failed: map[string]error{}, absent: map[string]error{},
		temporary: map[string]bool{}, loading: map[string]int{}, total: len(names),
	}
	m.starting.Store(s)
	if err := m.begin(func() { done <- s.run(names) }); err != nil {
		return []Failure{{Err: err}}
	}
	select {
	case failures := <-done:
		return failures
	case <-ctx.Done():
		m.stop()
		return nil
	}
}

func (s *startup) run(names []string) []Failure {
	s.readAll(names)
	for _, name := range names {
		s.poll(name, true)
	}
	s.mu.Lock()
	s.total = len(s.plans)
	s.mu.Unlock()
	for _, level := range s.graph.Order(slices.Sorted(maps.Keys(s.plans))) {
		var wg sync.WaitGroup
		for _, name := range level {
			wg.Go(func() {
				p := s.plans[name]
				defer p.snapshot.Release()
				defer s.end()
				if err := s.load(p); err != nil {
					s.fail(name, err)
				} else {
					s.m.bring(name, !slices.Contains(names, name))
				}
			})
		}
		wg.Wait()
	}
	failures := make([]Failure, 0, len(s.failed))
	for name, err := range s.failed {
		failures = append(failures, Failure{Model: name, Err: err, Temporary: s.temporary[name]})
	}
	slices.SortFunc(failures, func(a, b Failure) int { return cmp.Compare(a.Model, b.Model) })
	return failures
}

func (s *startup) fail(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[name] = err
}

// outcome is what reading a model has come to.
type outcome struct {
	plan *plan
	err  error
}

// readAll reads models at the same time, as many as there are load threads:
// some have to be downloaded first.
func (s *startup) readAll(names []string) {
	s.read = make(map[string]outcome, len(names))
	for _, name := range names {
		for _, key := range s.keys(name) {
			s.read[key] = outcome{}
		}
	}
	width := make(chan struct{}, s.m.turns.Places())
	var wg sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(s.read)) {
		width <- struct{}{}
		wg.Go(func() {
			defer func() { <-width }()
			p, err := s.m.poll(Request{Name: name})
			s.mu.Lock()
			defer s.mu.Unlock()
			s.read[name] = outcome{p, err}
		})
	}
	wg.Wait()
}

// keys returns those of the models that are called name; where they are not to be
// known, the name itself: the same error comes from reading it.
func (s *startup) keys(name string) []string {
	if keys, err := s.m.resolve(name); err == nil {
		return keys
	}
	return []string{name}
}

// poll reads the models that a name stands for, and the parts of them, so that the
// order of loading is known before the first one loads. asked says that it was
// named itself.
func (s *startup) poll(name string, asked bool) {
	for _, key := range s.keys(name) {
		s.pollKey(key, asked)
	}
}

func (s *startup) pollKey(name string, asked bool) {
	if s.plans[name] != nil || s.failed[name] != nil {
		return
	}
	o, known := s.read[name]
	if !known {
		o.plan, o.err = s.m.poll(Request{Name: name})
	}
	p, err := o.plan, o.err
	if err != nil && !asked && backend.AsError(err).Code == backend.NotFound {
		s.absent[name] = err
		return
	}
	if err != nil {
		s.temporary[name] = backend.AsError(err).Code == backend.Unavailable
		level := slog.LevelError
		if repository.Incomplete(err) {
			level = slog.LevelWarn // the rest of it may be on its way
		}
		err = reason.Unread(name, err)
		s.failed[name] = err
		s.m.unreadable(name, level, err)
		return
	}
	s.plans[name] = p
	if len(p.parts) > 0 {
		s.graph[name] = p.parts
		for _, part := range p.parts {
			s.poll(part, false)
		}
	}
}

// unreadable records a model whose configuration could not be read.
func (m *Manager) unreadable(name string, level slog.Level, err error) {
	m.log.Log(m.ctx, level, err.Error(), "model", name)
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models.entry(name)
	unloaded := func(_ int64, v *version) bool { return v.unwanted }
	if rest := maps.Clone(e.versions); len(rest) > 0 {
		if maps.DeleteFunc(rest, unloaded); len(rest) == 0 {
			clear(e.versions) // it was taken away and has come back unreadable
		}
	}
	e.blame(err.Error())
	e.unread = len(e.versions) == 0
}

func (s *startup) load(p *plan) error {
	if err := s.m.claim(p.name, true); err != nil {
		return err
	}
	defer s.m.unclaim(p.name)
	// The order of a startup sees to it that parts have been loaded.
	return s.m.loadWithParts(p, false, func(part string) error {
		if path := s.graph.Cycle(p.name); path != nil {
			return reason.Circle(path)
		}
		// The part came before its ensemble: that it does not serve is its failure.
		s.mu.Lock()
		defer s.mu.Unlock()
		if sub := s.plans[part]; sub != nil {
			return reason.OfPart(p.name, sub.name, sub.ensemble, s.failed[part])
		}
		return reason.OfAbsent(p.name, part, cmp.Or(s.failed[part], s.absent[part]))
	})
}
