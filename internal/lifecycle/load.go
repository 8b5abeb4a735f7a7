package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/repository/inspect"
	"github.com/nesoserve/neso/internal/stats"
)

// Request asks for one model to be loaded or reloaded.
type Request struct {
	Name string
	// Config, when not empty, is JSON that replaces the model's configuration file.
	Config string
	// Files, when there are any, replace the model's directory.
	Files map[string][]byte
	// Nested marks a request of a model, which may itself be loading: it needs no
	// load thread, since the one that waits for it may hold the last.
	Nested bool
	// bare leaves out what the models of an ensemble's steps make of a faulty one:
	// they are being read for that.
	bare bool
	// again marks the load of an ensemble that comes back: nobody asks for it anew.
	again bool
}

// Load loads or reloads one model and waits for the outcome. When ctx ends
// first, the load goes on by itself: a client that hangs up must not leave a
// model half-way.
func (m *Manager) Load(ctx context.Context, r Request) error {
	return m.await(ctx, r.Name, func() error { return m.load(ctx, r) })
}

func (m *Manager) await(ctx context.Context, name string, load func() error) error {
	done := make(chan error, 1) // the load never waits for the caller
	if err := m.begin(func() { done <- load() }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return backend.Errorf(backend.Cancelled, "the caller left, the load of model '%s' goes on", name)
	}
}

// begin runs a load on a goroutine that Close waits for.
func (m *Manager) begin(f func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse {
		return backend.Errorf(backend.Unavailable, "Server not ready")
	}
	m.loads.Go(func() {
		defer processors.Hold()() // files are read
		f()
	})
	return nil
}

// load loads every model that a name stands for: with namespacing that may be
// several.
func (m *Manager) load(ctx context.Context, r Request) error {
	if err := repository.CheckName(r.Name); err != nil {
		return err
	}
	keys := []string{r.Name}
	if len(r.Files) == 0 {
		var err error
		if keys, err = m.resolve(r.Name); err != nil {
			return pollError(r.Name, err)
		}
	}
	var first error
	var faults faultList
	for _, key := range keys {
		r.Name = key
		err := m.loadKey(ctx, r)
		if first == nil {
			first = err
		}
		faults.add(err)
	}
	if len(faults) > 1 {
		return backend.Errorf(backend.AsError(first).Code, "%s", strings.Join(faults, ""))
	}
	return first
}

func (m *Manager) loadKey(ctx context.Context, r Request) error {
	if r.Nested {
		_, err := m.loadClaimed(r)
		return err // one of those that leave may wait for this load, and so may an ensemble that would come back
	}
	var leaving []<-chan struct{}
	err := m.patiently(ctx, func() (err error) {
		leaving, err = m.loadClaimed(r)
		return err
	})
	for _, ended := range leaving {
		select {
		case <-ended:
		case <-m.ctx.Done():
		}
	}
	if err == nil {
		m.bringBack(ctx, r.Name)
	}
	return err
}

func (m *Manager) loadClaimed(r Request) (leaving []<-chan struct{}, err error) {
	if err := m.claim(r.Name, r.Nested); err != nil {
		return nil, err
	}
	defer m.unclaim(r.Name)
	defer func() {
		// Who may not load it is told so, and nobody else.
		if err != nil && !isBusy(err) && backend.AsError(err).Code != backend.PermissionDenied {
			m.reject(r.Name, err)
		}
	}()
	p, err := m.poll(r)
	if err != nil {
		return nil, pollError(r.Name, err)
	}
	defer p.snapshot.Release()
	if err := m.checkPaths(r, p); err != nil {
		return nil, err
	}
	served := m.serves(r.Name)
	if err = m.loadOne(p, []string{r.Name}); err == nil && !served && !r.again {
		m.bring(r.Name, false)
	}
	return p.leaving, err
}

// loadOne loads a model that the caller has claimed, after those parts of it
// that do not serve yet. path leads here from the model that was asked for.
func (m *Manager) loadOne(p *plan, path []string) error {
	p.path = path
	return m.loadWithParts(p, !p.nested, func(part string) error {
		if i := slices.Index(path, part); i >= 0 {
			return cycleError(append(path[i:len(path):len(path)], part))
		}
		if err := m.claim(part, p.nested); err != nil {
			if isBusy(err) && !p.nested {
				return err // to begin again, without a claim, when the part is free
			}
			return partError(p.name, part, err)
		}
		defer m.unclaim(part)
		sub, err := m.poll(Request{Name: part, Nested: p.nested})
		if err != nil {
			return partError(p.name, part, err)
		}
		defer sub.snapshot.Release()
		if err := m.loadOne(sub, append(slices.Clone(path), part)); isBusy(err) {
			return err
		} else if err != nil {
			return partFailed(p.name, sub, err)
		}
		m.bring(part, true)
		m.hold(p, part)
		return nil
	})
}

// bring notes who brought in a model that did not serve before.
func (m *Manager) bring(name string, pulled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(name).pulled = pulled
}

// loadWithParts loads a model once its parts serve, which stay as they are until
// it does. load is called for each part that does not serve, and returns the error
// for the ensemble.
func (m *Manager) loadWithParts(p *plan, mayWait bool, load func(part string) error) error {
	m.mu.Lock()
	e := m.entryLocked(p.name)
	e.wants, e.returns = p.parts, p.ensemble
	m.mu.Unlock()
	if !p.ensemble {
		return m.apply(p)
	}
	defer m.letGo(p)
	var faults faultList
	for _, part := range p.parts {
		// All of them: the load of one takes its time, and may bring others.
		if err := m.holdServing(p, mayWait); err != nil {
			return err
		}
		if !slices.Contains(p.holds, part) {
			err := load(part)
			if isBusy(err) {
				return err
			}
			faults.add(err)
		}
	}
	// Two loads that hold each other's ensembles could make a circle.
	err := m.compose(p)
	if err == nil {
		defer m.composed(p)
	}
	faults.add(err)
	if len(faults) > 0 {
		// The parts that do serve may have something to say as well.
		return m.fail(p, append(faults, m.survey(p).faults(p)...).err(), true)
	}
	if err := m.check(p); err != nil {
		return m.fail(p, err, true)
	}
	return m.apply(p)
}

// fail records why a model has no version, and returns the error of its load.
// unread says that the model is to be as one that could not be read: the peer
// does not know ensembles that fail validation either.
func (m *Manager) fail(p *plan, err error, unread bool) error {
	m.mu.Lock()
	e := m.entryLocked(p.name)
	e.unread = unread && len(e.versions) == 0
	e.blame(err.Error())
	m.mu.Unlock()
	m.log.Error(fmt.Sprintf("failed to load '%s': %v", p.name, err), "model", p.name)
	return loadError(p.name, err.Error())
}

// reject notes why the latest change of a model is not served. What serves goes on.
func (m *Manager) reject(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.models[name]; e != nil {
		e.rejected = strings.TrimSpace(err.Error())
	}
}

func (m *Manager) entryLocked(name string) *entry {
	e := m.models[name]
	if e == nil {
		e = &entry{versions: map[int64]*version{}}
		m.models[name] = e
	}
	return e
}

// apply brings the loaded versions of a model in line with its plan: it loads
// what is new or changed beside what serves, and when all of it is ready swaps
// it in at once, and takes away what is no longer wanted. When one version
// fails, nothing that served before has changed.
func (m *Manager) apply(p *plan) error {
	serve, missing := p.policy.Select(p.snapshot.Versions)
	for _, v := range missing {
		m.log.Error(fmt.Sprintf("version %d is specified for model '%s', but the version directory is not present", v, p.name),
			"model", p.name, "version", v)
	}
	if len(serve) == 0 {
		err := backend.Errorf(backend.InvalidArg, "%s", inspect.NoVersion(p.name, missing))
		if len(p.bound) == 0 {
			report := m.inspect(p, p.draft.Clone(), nil)
			return m.fail(p, report.With(err), false)
		}
		return m.fail(p, err, false)
	}
	rules, err := m.rulesOf(p, serve)
	if err != nil {
		return m.fail(p, err, false)
	}
	wanted, changes := m.prepare(p, serve)
	if len(wanted) > 0 && len(p.bound) == 0 {
		for _, idle := range inspect.Idle(p.draft, p.snapshot.Directory, m.o.Words) {
			m.log.Warn("the model's configuration asks for what has no effect",
				"model", p.name, "field", idle.Field, "because", idle.Because)
		}
	}
	opened := m.openAll(p, wanted, changes)
	if err := m.failed(p, opened); err != nil {
		return err
	}
	if err := m.checkRules(p, rules, serve, opened); err != nil {
		return err
	}
	before := m.agentsOf(p.name)
	m.swap(p, serve, opened, rules)
	before.Unload()
	p.snapshot.Agents.Complete()
	for _, o := range opened {
		if o.change != nil {
			p.leaving = append(p.leaving, o.change.Commit(m.o.DrainTimeout)...)
			added, removed := o.change.Counts()
			m.log.Info("instances changed", "model", p.name, "version", o.version, "added", added, "removed", removed)
		}
	}
	m.recheck(p.name)
	if len(opened) > 0 {
		m.log.Info(fmt.Sprintf("successfully loaded '%s'", p.name), "model", p.name)
	}
	return nil
}

// prepare returns the versions to load, of those to serve, and marks those
// that do not serve yet as loading. Of the versions to load, changes are those that
// serve and differ in their instances alone.
func (m *Manager) prepare(p *plan, serve []int64) (wanted []int64, changes map[int64]*model.Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryLocked(p.name)
	e.failure, e.unread = "", false
	changes = map[int64]*model.Model{}
	agented := p.snapshot.Agents.Libraries() || e.snapshot != nil && e.snapshot.Agents.Libraries()
	for _, n := range serve {
		v := e.versions[n]
		if v == nil {
			v = &version{}
			e.versions[n] = v
		}
		// An ensemble also depends on what its parts are now.
		if !p.ensemble && v.state == Ready && e.snapshot != nil && !agented && p.snapshot.SameConfig(e.snapshot) &&
			p.snapshot.SameVersion(e.snapshot, n) {
			continue
		}
		wanted = append(wanted, n)
		switch {
		case v.state != Ready:
			v.move(Loading, "")
		case !p.ensemble && e.snapshot != nil && !agented && p.snapshot.SameFiles(e.snapshot, n) &&
			p.draftOf(n).SameModel(v.draft, v.model.Config()):
			changes[n] = v.model
		}
	}
	return wanted, changes
}

// failed returns the error of a load in which a version failed, after undoing
// what the others have made; else nil.
func (m *Manager) failed(p *plan, all []opened) error {
	var text strings.Builder
	for _, o := range all {
		if o.err != nil {
			state := Unavailable
			if o.inPlace {
				state = Ready
			}
			fmt.Fprintf(&text, "version %d is at %s state: %s;", o.version, state, withCode(o.err))
		}
	}
	if text.Len() == 0 {
		return nil
	}
	m.mu.Lock()
	e := m.models[p.name]
	for _, o := range all {
		v := e.versions[o.version]
		if v.state == Loading {
			reason := "another version of the model failed to load"
			if o.err != nil {
				reason = withCode(o.err)
			}
			v.move(Unavailable, reason)
		}
	}
	m.mu.Unlock()
	for _, o := range all {
		if o.model != nil {
			_ = o.model.Close(m.drains) // it never served; the load's error says more
		}
		if o.change != nil {
			o.change.Abort()
		}
	}
	return loadError(p.name, text.String())
}

// swap makes the opened versions serve, in one step for requests, and retires
// their former selves and the versions that are no longer wanted. What a version
// was loaded from stays noted when its instances change: it still comes from there.
func (m *Manager) swap(p *plan, serve []int64, all []opened, rules routing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models[p.name]
	var old []retired
	for _, o := range all {
		v := e.versions[o.version]
		if o.inPlace {
			continue
		}
		if v.model != nil {
			old = append(old, retired{model: v.model, source: v.source, number: o.version})
		}
		v.move(Ready, "")
		v.model, v.source, v.draft, v.took = o.model, p.snapshot.Retain(), p.draftOf(o.version), o.took
		m.book.Open(m.title(p.name, o.version, o.model.Config()), stats.Loaded{
			Numbers: o.model.Stats(), Cached: o.model.Config().ResponseCache, LoadTime: o.took,
			Health: func() (int, int64) { h := o.model.Health(); return h.Stuck, h.Hangs },
		})
	}
	for _, n := range e.numbers() {
		if !slices.Contains(serve, n) {
			old = append(old, e.takeAway(n)...)
		}
	}
	if e.snapshot != nil {
		e.snapshot.Release()
	}
	e.snapshot, e.parts, e.rejected = p.snapshot.Retain(), p.parts, ""
	rules.stepped = rules.still(&e.routing)
	e.routing = rules
	m.publishLocked(p.name)
	m.retireLocked(map[string][]retired{p.name: old})
}

// pollError is the error of a load whose model could not be read.
func pollError(name string, err error) error {
	return backend.Errorf(backend.Internal, "failed to load '%s', failed to poll from model repository: %v", name, err)
}

// loadError is the error of a load that failed after the model was read. The
// newline is the peer's.
func loadError(name, reason string) error {
	return backend.Errorf(backend.InvalidArg, "%s%s\n", loadPrefix(name), reason)
}

func loadPrefix(name string) string { return "load failed for model '" + name + "': " }

func withCode(err error) string {
	e := backend.AsError(err)
	return e.Code.String() + ": " + e.Message
}
