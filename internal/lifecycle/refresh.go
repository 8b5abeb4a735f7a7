package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/repository"
)

// refresh brings the parts of an ensemble that serve in line with the repository: who
// has changed a model and its ensemble loads the ensemble, as with the peer. A change
// that cannot be read or loaded is not served, and the part goes on as it was. What a
// program has bound, or a request or an agent has brought, stays. The error is that of a
// part that is busy, to begin again when it is free. anew reports whether the model is to
// be loaded itself: an ensemble that serves is what its parts are already.
func (m *Manager) refresh(p *plan) (anew bool, err error) {
	if !p.ensemble || p.again {
		return true, nil
	}
	before := len(p.effects.tried)
	for _, part := range p.parts {
		if slices.Contains(p.path, part) {
			continue // a circle, which the load will find
		}
		served := m.fromRepository(part)
		if served == nil {
			continue
		}
		err := m.refreshPart(p, part, served)
		served.Release()
		if reason.IsBusy(err) && !p.nested {
			return false, err
		}
		if err != nil {
			m.reject(part, err)
			m.log.Error(fmt.Sprintf("model '%s' of ensemble '%s' goes on as it is: %v", part, p.name, err), "model", part)
		}
	}
	served := m.fromRepository(p.name)
	if served == nil || len(p.effects.tried) > before {
		return true, nil
	}
	defer served.Release()
	return !p.snapshot.Same(served), nil
}

func (m *Manager) refreshPart(p *plan, part string, served *repository.Snapshot) error {
	now, err := m.o.Repository.Read(m.ctx, part, "", nil, m.log)
	if err != nil {
		p.effects.unread = err
		return err
	}
	same := now.Same(served)
	now.Release()
	if same && !m.isEnsemble(part) {
		m.accept(part)
		return nil
	}
	if err := m.claim(part, p.nested); err != nil {
		return err
	}
	defer m.unclaim(part)
	sub, err := m.poll(Request{Name: part, Nested: p.nested})
	if err != nil {
		p.effects.unread = err
		return err
	}
	defer sub.snapshot.Release()
	sub.effects = p.effects
	return m.loadOne(sub, append(slices.Clone(p.path), part))
}

func (m *Manager) knows(p *plan) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models.entries[p.name]
	return e != nil && e.returns != nil && p.snapshot.Same(e.returns)
}

// fromRepository returns what a model that serves was loaded from, for its caller to
// release, if the repository would bring the same again.
func (m *Manager) fromRepository(name string) *repository.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models.entries[name]
	if e == nil || e.snapshot == nil || e.snapshot.IsBound() || e.snapshot.FromRequest() || e.snapshot.Agents != nil {
		return nil
	}
	return e.snapshot.Retain()
}

func (m *Manager) isEnsemble(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.models.entries[name]
	return e != nil && len(e.parts) > 0
}

// reject notes why the latest change of a model is not served. What serves goes on.
func (m *Manager) reject(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.models.entries[name]; e != nil {
		e.rejected = strings.TrimSpace(err.Error())
	}
}

// accept takes back what reject has noted: the repository has what serves again.
func (m *Manager) accept(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.models.entries[name]; e != nil {
		e.rejected = ""
	}
}
