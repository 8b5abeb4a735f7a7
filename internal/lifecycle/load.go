package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/lifecycle/routing"
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
	// Back brings a model back that was evicted, or an ensemble with such parts: versions
	// that it did not have then, and that cannot be loaded, leave it those that it had.
	Back bool
	// bare leaves out what the models of an ensemble's steps make of a faulty one:
	// they are being read for that.
	bare bool
	// again marks the load of an ensemble for the sake of its parts: nobody asks for it
	// anew, and it is what it was, whatever its files say now.
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
			return reason.Unread(r.Name, err)
		}
	}
	var first error
	var faults reason.List
	for _, key := range keys {
		r.Name = key
		err := m.loadKey(ctx, r)
		if first == nil {
			first = err
		}
		faults.Add(err)
	}
	if len(faults) > 1 {
		return backend.Errorf(backend.AsError(first).Code, "%s", strings.Join(faults, ""))
	}
	return first
}

func (m *Manager) loadKey(ctx context.Context, r Request) error {
	var done effects // also of attempts that others were in the way of
	if r.Nested {
		_, err := m.loadClaimed(r, &done)
		m.renewBehind(done.tried)
		return err // one of those that leave may wait for this load, and so may an ensemble
	}
	var leaving []<-chan struct{}
	err := m.patiently(ctx, func() (err error) {
		leaving, err = m.loadClaimed(r, &done)
		return err
	})
	for _, ended := range leaving {
		select {
		case <-ended:
		case <-m.ctx.Done():
		}
	}
	m.renew(done.tried)
	return err
}

// loadClaimed loads a model and what it is made of, and adds what that has done to done.
func (m *Manager) loadClaimed(r Request, done *effects) (leaving []<-chan struct{}, err error) {
	if err := m.claim(r.Name, r.Nested); err != nil {
		return nil, err
	}
	defer m.unclaim(r.Name)
	defer func() {
		// Who may not load it is told so, and nobody else.
		if err != nil && !reason.IsBusy(err) && backend.AsError(err).Code != backend.PermissionDenied {
			m.reject(r.Name, err)
		}
	}()
	p, err := m.poll(r)
	if err != nil {
		return nil, reason.Unread(r.Name, err)
	}
	defer p.snapshot.Release()
	p.effects = done
	if err := m.checkPaths(r, p); err != nil {
		return nil, err
	}
	served := m.serves(r.Name)
	if err = m.loadOne(p, []string{r.Name}); err == nil && !served && !r.again {
		m.bring(r.Name, false)
	}
	if done.unread != nil && !reason.IsBusy(err) && (err == nil || p.known) {
		err = reason.Unread(r.Name, done.unread)
	}
	return p.leaving, err
}

// loadOne loads a model that the caller has claimed, after those parts of it
// that do not serve yet. path leads here from the model that was asked for.
func (m *Manager) loadOne(p *plan, path []string) error {
	p.path = path
	if anew, err := m.refresh(p); err != nil {
		return err
	} else if !anew {
		m.accept(p.name)
		return nil
	}
	p.known = m.knows(p)
	return m.loadBack(p, m.loadWithAll)
}

// loadWithAll loads a model, before it those of its parts that do not serve yet.
func (m *Manager) loadWithAll(p *plan) error {
	path := p.path
	return m.loadWithParts(p, !p.nested, func(part string) error {
		if i := slices.Index(path, part); i >= 0 {
			return reason.Circle(append(path[i:len(path):len(path)], part))
		}
		if err := m.claim(part, p.nested); err != nil {
			if reason.IsBusy(err) && !p.nested {
				return err // to begin again, without a claim, when the part is free
			}
			return reason.OfAbsent(p.name, part, err)
		}
		defer m.unclaim(part)
		sub, err := m.poll(Request{Name: part, Nested: p.nested, Back: p.back})
		if err != nil {
			if len(path) == 1 {
				p.effects.unread = err
			}
			return reason.OfAbsent(p.name, part, err)
		}
		defer sub.snapshot.Release()
		sub.effects = p.effects
		if err := m.loadOne(sub, append(slices.Clone(path), part)); reason.IsBusy(err) {
			return err
		} else if err != nil {
			return reason.OfPart(p.name, sub.name, sub.ensemble, err)
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
	m.models.entry(name).pulled = pulled
}

// loadWithParts loads a model once its parts serve, which stay as they are until
// it does. load is called for each part that does not serve, and returns the error
// for the ensemble.
func (m *Manager) loadWithParts(p *plan, mayWait bool, load func(part string) error) error {
	m.mu.Lock()
	e := m.models.entry(p.name)
	e.wants = p.parts
	if !p.ensemble {
		e.comesBackFrom(nil)
	} else if len(m.Lookup(p.name)) == 0 {
		e.comesBackFrom(p.snapshot)
	}
	m.mu.Unlock()
	if !p.ensemble {
		return m.apply(p)
	}
	defer m.letGo(p)
	var faults reason.List
	for _, part := range p.parts {
		// All of them: the load of one takes its time, and may bring others.
		if err := m.holdServing(p, mayWait); err != nil {
			return err
		}
		if !slices.Contains(p.holds, part) {
			err := load(part)
			if reason.IsBusy(err) {
				return err
			}
			faults.Add(err)
		}
	}
	// Two loads that hold each other's ensembles could make a circle.
	err := m.compose(p)
	if err == nil {
		defer m.composed(p)
	}
	faults.Add(err)
	if len(faults) > 0 {
		m.drop(p.name)
		// The parts that do serve may have something to say as well.
		return m.fail(p, append(faults, m.survey(p).faults(p)...).Err(), true)
	}
	if err := m.check(p); err != nil {
		m.drop(p.name)
		return m.fail(p, err, true)
	}
	return m.apply(p)
}

// fail records why a model has no version, and returns the error of its load.
// unread says that the model is to be as one that could not be read: the peer
// does not know ensembles that fail validation either.
func (m *Manager) fail(p *plan, err error, unread bool) error {
	m.mu.Lock()
	e := m.models.entry(p.name)
	e.unread = unread && len(e.versions) == 0
	e.blame(err.Error())
	m.mu.Unlock()
	m.log.Error(fmt.Sprintf("failed to load '%s': %v", p.name, err), "model", p.name)
	return reason.Failed(p.name, err.Error())
}

// apply brings the loaded versions of a model in line with its plan: it loads
// what is new or changed beside what serves, and when all of it is ready swaps
// it in at once, and takes away what is no longer wanted. When one version
// fails, nothing that served before has changed. A model that comes back on demand comes
// with what it had then.
func (m *Manager) apply(p *plan) error {
	first := p.asItWas == nil
	err := m.applyOnce(p)
	if err == nil || !first {
		return err
	}
	m.turnBack(p, nil, err)
	if p.asItWas == nil {
		return err
	}
	again := m.applyOnce(p)
	for _, o := range p.asItWas.opened {
		_ = o.model.Close(m.drains) // the try has not come to it
	}
	if again != nil {
		return err
	}
	return nil
}

func (m *Manager) applyOnce(p *plan) error {
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
	serve, opened := m.leave(p, serve, m.openAll(p, wanted, changes))
	if err := m.failed(p, opened); err != nil {
		p.tried() // the peer makes the ensembles of what serves on anew for that, too
		return err
	}
	if err := m.checkRules(p, rules, serve, opened); err != nil {
		return err
	}
	before := m.agentsOf(p.name)
	if m.swap(p, serve, opened, rules) {
		p.tried()
	}
	before.Unload()
	p.snapshot.Agents.Complete()
	for _, o := range opened {
		if o.change != nil {
			p.leaving = append(p.leaving, o.change.Commit(m.o.DrainTimeout)...)
			added, removed := o.change.Counts()
			m.log.Info("instances changed", "model", p.name, "version", o.version, "added", added, "removed", removed)
		}
	}
	if p.asItWas != nil {
		m.cameBack(p, serve)
	}
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
	e := m.models.entry(p.name)
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
			fmt.Fprintf(&text, "version %d is at %s state: %s;", o.version, state, reason.WithCode(o.err))
		}
	}
	if text.Len() == 0 {
		return nil
	}
	m.mu.Lock()
	e := m.models.entries[p.name]
	for _, o := range all {
		v := e.versions[o.version]
		if v.state == Loading {
			why := "another version of the model failed to load"
			if o.err != nil {
				why = reason.WithCode(o.err)
			}
			v.move(Unavailable, why)
		}
	}
	m.mu.Unlock()
	err := reason.Failed(p.name, text.String())
	m.turnBack(p, all, err)
	for _, o := range all {
		if o.model != nil {
			_ = o.model.Close(m.drains) // it never served; the load's error says more
		}
		if o.change != nil {
			o.change.Abort()
		}
	}
	return err
}

// swap makes the opened versions serve, in one step for requests, and retires
// their former selves, the versions that are no longer wanted and the ensembles that
// no longer fit. What a version was loaded from stays noted when its instances change:
// it still comes from there. It reports whether anything has changed.
func (m *Manager) swap(p *plan, serve []int64, all []opened, rules routing.Rules) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models.entries[p.name]
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
			Health:    func() (int, int64) { h := o.model.Health(); return h.Stuck, h.Hangs },
			WorkerCPU: o.model.WorkerCPU,
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
	e.snapshot, e.parts, e.rejected, e.lacks = p.snapshot.Retain(), p.parts, "", nil
	e.comesBackFrom(nil)
	e.rules = rules.After(e.rules)
	gone := m.publishFittingLocked(p.name)
	gone[p.name] = append(gone[p.name], old...)
	m.retireLocked(gone)
	return len(all) > 0 || len(old) > 0
}
