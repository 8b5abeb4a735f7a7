package genai

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
)

// instance takes requests of a model. All instances of a version share its admission.
type instance struct {
	model   *model
	running sync.WaitGroup
	closed  atomic.Bool
}

func newInstance(m *model) (*instance, error) { return &instance{model: m}, nil }

// Execute implements backend.Instance: it reads the requests and waits until they are
// admitted. What is written for them comes later.
func (in *instance) Execute(_ context.Context, batch *backend.Batch) error {
	for _, r := range batch.Requests {
		if err := in.begin(r); err != nil {
			_ = r.Respond(&backend.Response{Err: backend.AsError(err)}, true) // nobody waits where this fails
		}
	}
	return nil
}

func (in *instance) begin(r *backend.Request) error {
	m := in.model
	t, err := m.read(r)
	if err != nil {
		return err
	}
	need := m.cost(t)
	gone := func() bool { return r.Cancelled() || in.closed.Load() }
	if err := m.admission.take(need, gone); err != nil {
		return err
	}
	in.running.Go(func() {
		err := in.write(r, t, gone)
		m.admission.giveBack(need)
		if err != nil {
			_ = r.Respond(&backend.Response{Err: backend.AsError(err)}, true)
		}
	})
	return nil
}

// cost is what a task may come to need of the cache of keys and values.
func (m *model) cost(t *task) claim {
	tokens := int64(t.tokens())
	if m.together != nil && t.beams <= 1 {
		return claim{tokens: tokens}
	}
	if e := m.network.settings.Engine.Dynamic; e != nil && e.BlockSize > 0 { // whole pages
		tokens = (tokens + int64(e.BlockSize) - 1) / int64(e.BlockSize) * int64(e.BlockSize)
	}
	return claim{bytes: tokens * m.network.perToken * int64(max(1, t.beams))}
}

// Close implements backend.Instance.
func (in *instance) Close() error {
	in.closed.Store(true)
	in.running.Wait()
	return nil
}
