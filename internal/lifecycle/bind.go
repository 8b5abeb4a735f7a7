package lifecycle

import (
	"context"
	"maps"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/repository"
)

// Bound is one version of a model that a running program serves: it comes from
// no repository and has a backend of its own.
type Bound struct {
	Name    string
	Version int64
	// Config is the model's configuration as JSON.
	Config []byte
	// Backend runs the model. Whoever binds it closes it.
	Backend backend.Backend
}

// binding is a version as it was bound last.
type binding struct {
	Bound
	generation uint64
}

// Bind loads a version that a program serves, or puts it in the place of what
// was bound before, as a reload does: the old one serves until the new one is
// ready, and goes on when that fails. Like Load it goes on when ctx ends.
func (m *Manager) Bind(ctx context.Context, b Bound) error {
	return m.await(ctx, b.Name, func() error {
		var done effects
		defer func() { m.renew(done.tried) }()
		return m.bind(b, &done)
	})
}

// Unbind takes a bound version out of service. It returns once no new request
// can reach it. What was never bound is no error.
func (m *Manager) Unbind(ctx context.Context, name string, version int64, of backend.Backend) error {
	return m.await(ctx, name, func() error {
		var done effects
		defer func() { m.renew(done.tried) }()
		return m.unbind(name, version, of, &done)
	})
}

func (m *Manager) bind(b Bound, done *effects) error {
	if err := repository.CheckName(b.Name); err != nil {
		return err
	}
	if b.Version < 1 {
		return backend.Errorf(backend.InvalidArg, "version %d of model '%s' is not a positive number", b.Version, b.Name)
	}
	if err := m.claim(b.Name, true); err != nil {
		return err
	}
	defer m.unclaim(b.Name)
	m.mu.Lock()
	if e := m.models.entries[b.Name]; e != nil && e.snapshot != nil && !e.snapshot.IsBound() {
		m.mu.Unlock()
		return backend.Errorf(backend.AlreadyExists, "model '%s' is loaded from a model repository, unload it before binding", b.Name)
	}
	versions := maps.Clone(m.bound[b.Name])
	m.generation++
	generation := m.generation
	m.mu.Unlock()
	if versions == nil {
		versions = map[int64]binding{}
	}
	versions[b.Version] = binding{b, generation}
	p, err := m.planBound(Request{Name: b.Name}, versions)
	if err != nil {
		return err
	}
	defer p.snapshot.Release()
	p.effects = done
	err = m.apply(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.bound[b.Name] = versions
		return nil
	}
	// What never served leaves no trace: the binder has the error.
	if e := m.models.entries[b.Name]; e != nil {
		if v := e.versions[b.Version]; v != nil && v.state != Ready {
			delete(e.versions, b.Version)
		}
		if len(e.versions) == 0 {
			delete(m.models.entries, b.Name)
		}
	}
	return err
}

func (m *Manager) unbind(name string, version int64, of backend.Backend, done *effects) error {
	if err := m.claim(name, true); err != nil {
		return err
	}
	defer m.unclaim(name)
	m.mu.Lock()
	old, ok := m.bound[name][version]
	if !ok || of != nil && old.Backend != of { // somebody else has bound it since
		m.mu.Unlock()
		return nil
	}
	versions := maps.Clone(m.bound[name])
	delete(versions, version)
	if len(versions) == 0 {
		delete(m.bound, name)
		m.unloadLocked([]string{name}, m.models.graph().Users(name), away)
		delete(m.models.entries, name) // there is nothing to load again
		m.mu.Unlock()
		return nil
	}
	m.bound[name] = versions
	m.mu.Unlock()
	p, err := m.planBound(Request{Name: name}, versions)
	if err != nil {
		return err
	}
	defer p.snapshot.Release()
	p.effects, p.takesBack = done, true
	err = m.apply(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.models.entries[name]; e != nil {
		delete(e.versions, version)
	}
	return err
}

// boundVersions returns what is bound under a name, nil when nothing is.
func (m *Manager) boundVersions(name string) map[int64]binding {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bound[name]
}

// planBound is poll for a model that a program serves.
func (m *maker) planBound(r Request, versions map[int64]binding) (*plan, error) {
	if len(r.Files) > 0 {
		return nil, backend.Errorf(backend.InvalidArg, "model '%s' is bound by a program, which files cannot replace", r.Name)
	}
	generations := make(map[int64]uint64, len(versions))
	for n, b := range versions {
		generations[n] = b.generation
	}
	p := &plan{
		name: r.Name, nested: r.Nested, snapshot: repository.Bound(r.Name, r.Config, generations),
		bound: versions, drafts: map[int64]*draft.Draft{}, policy: modelconfig.VersionPolicy{All: true},
	}
	for n, b := range versions {
		text := b.Config
		if r.Config != "" {
			text = []byte(r.Config)
		}
		draft, err := configureBound(r.Name, text, m.o.DisableAutoComplete)
		if err != nil {
			p.snapshot.Release()
			return nil, err
		}
		p.drafts[n], p.draft = draft, draft
	}
	return p, nil
}

func configureBound(name string, text []byte, complete bool) (*draft.Draft, error) {
	draft, err := draft.ParseJSON(text, "")
	if err != nil {
		return nil, err
	}
	if err := draft.CompleteBackend(name, nil); err != nil {
		return nil, err
	}
	draft.Normalize()
	if err := draft.Validate(complete); err != nil {
		return nil, err
	}
	if draft.IsEnsemble() {
		return nil, backend.Errorf(backend.InvalidArg, "model '%s' is an ensemble, which cannot be bound", name)
	}
	return draft, draft.CheckDirectory(name)
}

// backendOf returns what runs a version.
func (m *maker) backendOf(ctx context.Context, p *plan, version int64) (backend.Backend, error) {
	if b, ok := p.bound[version]; ok {
		return b.Backend, nil
	}
	return m.backends.get(ctx, p.draft, p.folders(version))
}

// folders are where a library of a version's own may lie.
func (p *plan) folders(version int64) []string {
	return []string{p.snapshot.VersionDirectory(version), p.snapshot.Directory}
}

// draftOf returns the configuration of a version as far as it is known before
// its backend has completed it.
func (p *plan) draftOf(version int64) *draft.Draft {
	if d := p.drafts[version]; d != nil {
		return d
	}
	return p.draft
}
