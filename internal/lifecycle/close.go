package lifecycle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/instance"
)

// closeGrace is how long Close waits, after its context has ended, for models
// to give up their work: a little longer than each of them waits itself.
const closeGrace = instance.Grace + time.Second

// Close refuses loads, stops those in progress, unloads all models, callers
// before the models they call, and closes the backends. Requests get until the
// end of ctx; then what is left fails and Close says so. It may be called more
// than once.
func (m *Manager) Close(ctx context.Context) error {
	m.closing.Do(func() {
		m.mu.Lock()
		m.refuse = true
		m.mu.Unlock()
		m.stop()
		go func() { // ends with closed, which every Close waits for
			m.closeErr = m.unloadAll()
			close(m.closed)
		}()
	})
	select {
	case <-m.closed:
		return m.closeErr
	case <-ctx.Done():
	}
	m.stopDrains()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	timeout := backend.Errorf(backend.Internal, "Exit timeout expired. Exiting immediately.")
	select {
	case <-m.closed:
		return errors.Join(timeout, m.closeErr)
	case <-grace.C:
		return timeout
	}
}

func (m *Manager) unloadAll() error {
	m.loads.Wait()
	m.mu.Lock()
	g := m.callersLocked()
	levels := g.Order(slices.Sorted(maps.Keys(m.models.entries)))
	m.mu.Unlock()
	for _, level := range slices.Backward(levels) {
		m.mu.Lock()
		m.unloadLocked(level, nil, away)
		m.mu.Unlock()
		m.retirements.Wait()
	}
	m.retirements.Wait() // also of models that are not known any more
	m.end()
	m.lingering.Wait()
	return m.backends.close()
}
