package lifecycle

import (
	"context"
	"errors"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
)

// claims says which models loads and unloads work on, so that they come one after
// the other where they would meet, as the peer's do. Manager.mu guards it.
type claims struct {
	// claimed are the models that a load is working on.
	claimed map[string]bool
	// held counts, for each model, the loads of ensembles that are made of it. It
	// stays as it is until these end: the graph of what is loaded does not know such
	// an ensemble yet, so an unload would take away what it has just been checked
	// against.
	held  map[string]int
	freed chan struct{} // closed, and made anew, when a claim or a hold ends
}

func newClaims() claims {
	return claims{claimed: map[string]bool{}, held: map[string]int{}, freed: make(chan struct{})}
}

// blocks reports whether a model is not to be changed now. passes says that holds
// do not count.
func (c *claims) blocks(name string, passes bool) bool {
	return c.claimed[name] || !passes && c.held[name] > 0
}

func (c *claims) signal() {
	close(c.freed)
	c.freed = make(chan struct{})
}

// patiently does what another load or unload stands in the way of again when that
// one has ended: two loads of a model come one after the other, as the peer's do. The
// caller holds no claim, or two could wait for each other. A request of a model
// must not wait: what it waits for may be its own load.
func (m *Manager) patiently(ctx context.Context, do func() error) error {
	for {
		if err := do(); !m.outlast(ctx, err) {
			return err
		}
	}
}

// outlast waits until what is in the way, as err says, has ended. It returns false where
// nothing is, and where ctx or the server ends before.
func (m *Manager) outlast(ctx context.Context, err error) bool {
	var b reason.Busy
	if !errors.As(err, &b) {
		return false
	}
	for freed := m.blocked(b); freed != nil; freed = m.blocked(b) {
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		case <-m.ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil && m.ctx.Err() == nil
}

// blocked returns nil when what was in the way is not there any more, else what is
// closed when any claim ends. Those that wait give up claims of their own, which
// must not wake them: they would go round and round.
func (m *Manager) blocked(b reason.Busy) (freed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.claims.blocks(b.Model, b.Passes) {
		return nil
	}
	return m.claims.freed
}

// claim reserves a model for one load or unload. passes lets it have one that the
// load of an ensemble holds: who may not wait would fail else.
func (m *Manager) claim(name string, passes bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse {
		return backend.Errorf(backend.Unavailable, "Server not ready")
	}
	if m.claims.blocks(name, passes) {
		return reason.Related(name, passes)
	}
	m.claims.claimed[name] = true
	return nil
}

func (m *Manager) unclaim(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims.claimed, name)
	m.claims.signal()
}

// holdServing holds the parts of an ensemble that serve and are not held yet. One
// that another load is working on is busy, but for who may not wait.
func (m *Manager) holdServing(p *plan, mayWait bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, part := range p.parts {
		if slices.Contains(p.holds, part) || !m.servesLocked(part) {
			continue // one that does not serve will be loaded, and held then
		}
		if mayWait && m.claims.claimed[part] && !slices.Contains(p.path, part) {
			return reason.Related(part, true)
		}
		m.holdLocked(p, part)
	}
	return nil
}

// hold holds a part that the load of the ensemble has claimed.
func (m *Manager) hold(p *plan, part string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holdLocked(p, part)
}

func (m *Manager) holdLocked(p *plan, part string) {
	m.claims.held[part]++
	p.holds = append(p.holds, part)
}

// letGo gives up what the load of an ensemble holds.
func (m *Manager) letGo(p *plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, part := range p.holds {
		if m.claims.held[part]--; m.claims.held[part] == 0 {
			delete(m.claims.held, part)
		}
	}
	p.holds = nil
	m.claims.signal()
}
